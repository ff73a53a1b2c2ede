// Times, durations and untrusted texts in the form in which the desk shows them.

const UNSAFE = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const SEQUENCES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;

let clockOffset = 0;  // seconds by which the core's clock is ahead of this clock

export const setClock = now => { clockOffset = now - Date.now() / 1000; };
export const now = () => Date.now() / 1000 + clockOffset;

// Makes control characters visible. Characters that reorder text become their code, such as ‹202e›.
export function clean(text) {
  return String(text).replaceAll("\r\n", "\n").replace(UNSAFE, found => {
    const code = found.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "␡" : `‹${code.toString(16)}›`;
  });
}

// Returns a name with its replica if there are several, such as `claude on web-1`.
export const onReplica = (who, replica) => replica ? `${who} on ${replica}` : who;

export const oneLine = text => clean(text).replaceAll("\n", "⏎");

// Returns the output of a program without escape sequences. Of an overwritten line, only the last text remains.
export function printed(text) {
  const plain = text.replace(SEQUENCES, "").replaceAll("\r\n", "\n");
  return clean(plain.split("\n").map(line => line.slice(line.lastIndexOf("\r", line.length - 2) + 1)).join("\n"));
}

const two = number => String(number).padStart(2, "0");

export function clock(moment, short = false) {
  const date = new Date(moment * 1000);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return short ? time : `${time}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

export function since(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${two(Math.floor(whole % 3600 / 60))}`;
  return `${Math.floor(whole / 86400)} d ${Math.floor(whole % 86400 / 3600)} h`;
}

export function duration(seconds) {
  if (seconds < 0.0009995) return `${Math.max(0, Math.round(seconds * 1e6))} µs`;
  if (seconds < 0.9995) return `${(seconds * 1e3).toFixed(seconds < 0.00995 ? 1 : 0)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)}:${two(whole % 60)} min`;
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole % 3600 / 60))} h`;
}

export function countdown(seconds) {
  const whole = Math.ceil(seconds);
  if (whole <= 0) return "now";
  const hours = Math.floor(whole / 3600), minutes = Math.floor(whole % 3600 / 60);
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  const units = ["kB", "MB", "GB"];
  let value = bytes;
  for (const unit of units) {
    value /= 1000;
    if (value < 999.5 || unit === "GB") return `${value.toFixed(value < 99.95 ? 1 : 0)} ${unit}`;
  }
}

const grouping = new Intl.NumberFormat("en");
export const grouped = number => grouping.format(number);
export const count = (number, noun) => `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;

export const sparkline = values => {
  const most = Math.max(...values, 1);
  return values.map(value => value ? "▁▂▃▄▅▆▇█"[Math.min(7, Math.floor(value / most * 7.99))] : " ").join("");
};
