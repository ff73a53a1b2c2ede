"""Table of all settings. Each value records where it came from.

Precedence: flag, environment, the folder's env files, `settings` of its `mcp.json`, default. The effects of
the settings are implemented by the modules that read `Settings`. Each field of `transports.base.Rules` takes
the value of the setting with the same name. `docs/settings.md` is generated from this table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from mcpdesk.errors import DeskUserError
from mcpdesk.feature_table import FEATURES
from mcpdesk.paths import state_folder
from mcpdesk.setting_values import HIDDEN, FolderUse, GivenValue, Setting, SettingKind, converted

ENV_FILE = "mcpdesk-env.txt"
ENV_FILES = (ENV_FILE, "scorpiox-env.txt")
"""Env files of a server folder. If both files have the same variable or setting, the first file is used."""
OWN_PREFIX = "MCPDESK_"
"""Beginning of the names of all environment variables that only mcpdesk uses."""
MIN_SIMILARITY = 0.75
"""Minimum similarity (0 to 1) of an unknown variable to a known one at which it is reported as misspelt."""
SEARCH_ENGINES = (
    "brave", "duckduckgo", "grokipedia", "mojeek", "startpage", "wikipedia", "yahoo", "stackexchange",
    "hackernews", "github", "arxiv", "searxng",
)  # fmt: skip
"""Engines of WebSearch. They are listed here, too, so that the search code need not be imported."""
WEB_ADDRESS = r"((?:(\[[0-9a-fA-F:]+\]|[^:\s/]+)?:)?(\d{1,5}))?"
"""Pattern of `HOST:PORT`; the host is optional."""
DEFAULT_WEB_ADDRESS = "127.0.0.1:3334"


class Settings(Struct, frozen=True):
    """Effective settings. Units are in the names: milliseconds, bytes and seconds."""

    host: str
    port: int
    socket: Path | None
    """Path of the Unix socket. If it is None and TCP listening is not permitted, a path is chosen."""
    tool_timeout_ms: int
    question_timeout_ms: int
    api_key: str
    """Empty if not configured; a key is then generated when one is required."""
    api_key_header: str
    operator_key: str
    """Empty to generate a random one at each start."""
    token: str
    """Bearer token of a client over stdio, or of a command that calls a folder. May be empty."""
    request_state_secret: str
    """One or more secrets, separated by commas. Empty to generate one and keep it in the state folder."""
    no_auth: bool
    enable_mcp: bool
    max_body_bytes: int
    max_bodies_bytes: int
    unread_answers_max_bytes: int
    tools: bool
    streaming: bool
    model: str
    page_size: int
    session_ttl_s: int
    request_timeout_s: int
    connect_timeout_s: int
    keep_open_s: int
    drain_timeout_s: int
    lame_duck_s: int
    max_connections: int
    max_sessions: int
    max_in_flight: int
    max_subscriptions: int
    max_threads: int
    max_tasks: int
    task_ttl_s: int
    """Lifetime of tasks in seconds. 0 to keep tasks forever."""
    job_timeout_ms: int
    job_ttl_s: int
    jobs_at_once: int
    output_dirs: tuple[str, ...]
    resume_bytes: int
    """Limit for each session."""
    outputs_keep_bytes: int
    """Limit for each server."""
    capture: bool
    capture_keep_bytes: int
    """Limit for all captures in the folder together. 0 for no limit."""
    capture_keep_age: int
    """Maximum age of a capture in seconds. 0 for no limit."""
    capture_max_bytes: int
    """Limit for each file. 0 for no limit."""
    capture_body_bytes: int
    """Limit for each message. 0 for no limit."""
    capture_memory_bytes: int
    allowed_origins: tuple[str, ...]
    allowed_hosts: tuple[str, ...]
    desk_revision: str
    ask_order: str
    approvals: tuple[str, ...]
    """Each item has the form `TOOL=policy`."""
    output_chars: int
    search_engines: tuple[str, ...]
    """Empty to use the default engines."""
    search_urls: tuple[str, ...]
    """Each item has the form `NAME=URL`."""
    search_timeout_ms: int
    read_private_urls: bool
    watch_polling: bool
    web: str
    """`HOST:PORT`, or a port. Empty to keep the desk out of browsers."""
    log_format: str
    disabled_features: tuple[str, ...]
    shared: str
    """URL of a Valkey or Redis server, or empty."""
    shared_name: str
    shared_mask: bool
    replica_url: str
    """Empty to use the address on which the process listens."""
    otel_endpoint: str
    """Empty to send no telemetry."""
    otel_headers: str
    """`NAME=VALUE`, separated by commas."""
    otel_metrics_ms: int
    otel_traces_percent: int
    trust: bool
    state_dir: Path


SETTINGS: tuple[Setting, ...] = (
    Setting("host", SettingKind.TEXT, "127.0.0.1", ("MCPDESK_HOST", "DZX_HOST"),
            "IP address or host name to listen on.", pattern=r"[^\s/]+", allowed="a host name or an address"),
    Setting("port", SettingKind.INTEGER, 3333, ("MCPDESK_PORT", "PORT"),
            "TCP port to listen on; 0 selects a free one. If the port is in use, the desk takes the next "
            "free one, and `serve` reports an error.", most=65535),
    Setting("socket", SettingKind.PATH, None, ("MCPDESK_SOCKET", "DZX_SOCKET"),
            "Path of a Unix socket for HTTP. With the flag `--socket`, the socket replaces TCP. A socket "
            "from another source is used only if the system does not permit TCP ports."),
    Setting("tool_timeout_ms", SettingKind.INTEGER, 30_000,
            ("MCPDESK_TOOL_TIMEOUT_MS", "DZX_TOOL_TIMEOUT_MS"),
            "Time limit of a tool call, in milliseconds. Waiting for a person does not count.", least=1,
            folder=FolderUse.SET),
    Setting("question_timeout_ms", SettingKind.INTEGER, 600_000, ("MCPDESK_QUESTION_TIMEOUT_MS",),
            "Time limit of a question to a person, in milliseconds.", least=1, folder=FolderUse.SET),
    Setting("api_key", SettingKind.SECRET, "", ("MCPDESK_API_KEY", "ZYRA_API_KEY"),
            "API key that clients must send over HTTP.", pattern=r"[!-~]+",
            allowed="visible ASCII characters"),
    Setting("api_key_header", SettingKind.TEXT, "X-API-Key", ("MCPDESK_API_KEY_HEADER", "API_KEY_HEADER"),
            "Name of the HTTP header that contains the API key.", pattern=r"[A-Za-z0-9!#$%&'*+.^_`|~-]+",
            allowed="an HTTP header name"),
    Setting("operator_key", SettingKind.SECRET, "", ("MCPDESK_OPERATOR_KEY",),
            "Key with which you sign in to the dashboard and to the pages of `--web`. By default, each start "
            "makes a random key and stores it in the folder `operator` of the state folder. MCP clients do "
            "not need it.", pattern=r"[!-~]+", allowed="visible ASCII characters"),
    Setting("token", SettingKind.SECRET, "", ("MCPDESK_TOKEN",),
            "Bearer token of the client, for `mcpdesk stdio FOLDER` and for commands such as `call` on a "
            "folder. Without it, tools that need a token are not listed.", pattern=r"[!-~]+",
            allowed="visible ASCII characters"),
    Setting("request_state_secret", SettingKind.SECRET, "", ("MCPDESK_REQUEST_STATE_SECRET",),
            "Secret that signs requestState, which clients send back with their answers. If all processes "
            "have the same secret, each of them can continue a call that waits for an answer. If you give "
            "several secrets, the first one signs, and all are accepted.",
            pattern=r"[!-+\--~]{32,}(,[!-+\--~]{32,})*",
            allowed="32 or more visible ASCII characters, several separated by commas"),
    Setting("no_auth", SettingKind.SWITCH, False, ("MCPDESK_NO_AUTH",),
            "If true, callers need no API key, even if a tool can run programs."),
    Setting("enable_mcp", SettingKind.SWITCH, True, ("MCPDESK_ENABLE_MCP", "ZYRA_ENABLE_MCP"),
            "If false, MCP endpoints answer 404. The pages for health and status remain.",
            folder=FolderUse.SET),
    Setting("max_body_bytes", SettingKind.BYTES, 16 << 20,
            ("MCPDESK_MAX_BODY_BYTES", "ZYRA_MCP_MAX_BODY_BYTES"),
            "Maximum size of a request body. A larger request gets 413. For requests that are forwarded to "
            "an upstream program, the maximum is at least 64M. Those for an upstream URL have no maximum.",
            least=1024, folder=FolderUse.SET),
    Setting("max_bodies_bytes", SettingKind.BYTES, 256 << 20, ("MCPDESK_MAX_BODIES_BYTES",),
            "Maximum total size of the large requests that are in progress. Further large requests are "
            "refused.", least=1024, folder=FolderUse.SET),
    Setting("unread_answers_max_bytes", SettingKind.BYTES, 256 << 20, ("MCPDESK_UNREAD_ANSWERS_MAX_BYTES",),
            "Maximum total size of answers of 64K and more that clients have not read yet. A further answer "
            "waits up to 15 s and is then refused with 503.", least=1 << 20),
    Setting("tools", SettingKind.SWITCH, True, ("MCPDESK_TOOLS", "TOOLS"),
            "If false, the server offers no tools.", folder=FolderUse.SET),
    Setting("streaming", SettingKind.SWITCH, True, ("MCPDESK_STREAMING", "STREAMING"),
            "If false, HTTP responses are JSON instead of event streams, and clients receive no progress.",
            folder=FolderUse.SET),
    Setting("model", SettingKind.TEXT, "", ("MCPDESK_MODEL", "MODEL"),
            "Model that sampling requests prefer. Its vendor's API decides the form of the schemas that "
            "`mcpdesk schemas` prints.", folder=FolderUse.SET),
    Setting("page_size", SettingKind.INTEGER, 1000, ("MCPDESK_PAGE_SIZE",),
            "Maximum number of items on one page of a list. Many clients read only the first page.", least=1,
            most=10_000, folder=FolderUse.SET),
    Setting("session_ttl_s", SettingKind.INTEGER, 3600, ("MCPDESK_SESSION_TTL_S",),
            "Idle time in seconds after which an HTTP session ends.", least=1, folder=FolderUse.SET),
    Setting("request_timeout_s", SettingKind.INTEGER, 30, ("MCPDESK_REQUEST_TIMEOUT_S",),
            "Time limit for receiving an HTTP request, in seconds. A slower request is refused with 408. "
            "Large bodies have more time.", least=1, folder=FolderUse.SET),
    Setting("connect_timeout_s", SettingKind.INTEGER, 30, ("MCPDESK_CONNECT_TIMEOUT_S",),
            "Time limit for the first answer of an upstream server, in seconds.", least=1,
            folder=FolderUse.SET),
    Setting("keep_open_s", SettingKind.INTEGER, 1800, ("MCPDESK_KEEP_OPEN_S",),
            "Seconds without use after which a connection of `mcpdesk up` ends.", least=1, most=604_800),
    Setting("drain_timeout_s", SettingKind.INTEGER, 30, ("MCPDESK_DRAIN_TIMEOUT_S",),
            "Time in seconds for running calls and jobs to finish after SIGTERM.", folder=FolderUse.SET),
    Setting("lame_duck_s", SettingKind.INTEGER, 5, ("MCPDESK_LAME_DUCK_S",),
            "Time after SIGTERM during which a replica still accepts connections, in seconds. During this "
            "time, /ready answers 503.", most=600, folder=FolderUse.SET),
    Setting("max_connections", SettingKind.INTEGER, 1000, ("MCPDESK_MAX_CONNECTIONS",),
            "Maximum number of HTTP connections. If this number is reached, a new connection replaces an "
            "idle one. If no connection is idle, the new one gets 503.", least=1, folder=FolderUse.SET),
    Setting("max_sessions", SettingKind.INTEGER, 10_000, ("MCPDESK_MAX_SESSIONS",),
            "Maximum number of HTTP sessions. If this number is reached, a new session replaces an idle one. "
            "If no session is idle, the new one gets 503.", least=1, folder=FolderUse.SET),
    Setting("max_in_flight", SettingKind.INTEGER, 1024, ("MCPDESK_MAX_IN_FLIGHT",),
            "Maximum number of running requests of one connection or session. Further requests are refused.",
            least=1, folder=FolderUse.SET),
    Setting("max_subscriptions", SettingKind.INTEGER, 1000, ("MCPDESK_MAX_SUBSCRIPTIONS",),
            "Maximum number of subscriptions of one connection or session. Further subscriptions are "
            "refused.", least=1, folder=FolderUse.SET),
    Setting("max_threads", SettingKind.INTEGER, 64, ("MCPDESK_MAX_THREADS",),
            "Maximum number of plain functions (`def`) that run at the same time. Further calls wait up to 5 "
            "s and are then refused.", least=1, folder=FolderUse.SET),
    Setting("max_tasks", SettingKind.INTEGER, 1000, ("MCPDESK_MAX_TASKS",),
            "Maximum number of tasks and jobs of a server. One client may have half of this number. Further "
            "tasks and jobs are refused.", least=1, folder=FolderUse.SET),
    Setting("task_ttl_s", SettingKind.INTEGER, 3600, ("MCPDESK_TASK_TTL_S",),
            "Time from the start of a task until the task and its result are deleted, in seconds. 0 keeps "
            "both.", folder=FolderUse.SET),
    Setting("job_timeout_ms", SettingKind.INTEGER, 3_600_000, ("MCPDESK_JOB_TIMEOUT_MS",),
            "Time limit of a job or task that does not set its own, in milliseconds.", least=1,
            folder=FolderUse.SET),
    Setting("job_ttl_s", SettingKind.INTEGER, 3600, ("MCPDESK_JOB_TTL_S",),
            "Time from the end of a gateway job until the job and its result are deleted, in seconds.",
            least=1, folder=FolderUse.SET),
    Setting("jobs_at_once", SettingKind.INTEGER, 16, ("MCPDESK_JOBS_AT_ONCE",),
            "Maximum number of gateway jobs of a server that run at the same time. Further jobs wait.",
            least=1, folder=FolderUse.SET),
    Setting("output_dirs", SettingKind.LIST, ("/tmp",), ("MCPDESK_OUTPUT_DIRS",),
            "Folders where programs may create files for clients. The server offers these files for "
            "download.", pattern=r"[/~].*", allowed="absolute paths"),
    Setting("resume_bytes", SettingKind.BYTES, 1 << 20, ("MCPDESK_RESUME_BYTES",),
            "Maximum size of the events that are kept for each session, so that a client that reconnects can "
            "read them.", folder=FolderUse.SET),
    Setting("outputs_keep_bytes", SettingKind.BYTES, 1 << 30, ("MCPDESK_OUTPUTS_KEEP_BYTES",),
            "Maximum disk space for the output of one server's programs. The oldest files are removed first.",
            least=64 << 10),
    Setting("capture", SettingKind.SWITCH, True, ("MCPDESK_CAPTURE",),
            "If false, no capture file is written. The newest messages are only in memory."),
    Setting("capture_keep_bytes", SettingKind.BYTES, 1 << 30, ("MCPDESK_CAPTURE_KEEP_BYTES",),
            "Maximum disk space for all captures together. The oldest files are removed first. 0 sets no "
            "limit."),
    Setting("capture_keep_age", SettingKind.DURATION, 30 * 86_400, ("MCPDESK_CAPTURE_KEEP_AGE",),
            "Age at which a capture is removed, counted from the last write. 0 sets no limit."),
    Setting("capture_max_bytes", SettingKind.BYTES, 1 << 30, ("MCPDESK_CAPTURE_MAX_BYTES",),
            "Size at which a capture continues in a new file. If an eighth of capture_keep_bytes is less, "
            "that is the limit. 0 sets no limit.", folder=FolderUse.SET),
    Setting("capture_body_bytes", SettingKind.BYTES, 64 << 10, ("MCPDESK_CAPTURE_BODY_BYTES",),
            "Number of bytes recorded from the start of a large message of a client. The last 1 KiB is "
            "recorded as well. 0 records all bytes.", folder=FolderUse.SET),
    Setting("capture_memory_bytes", SettingKind.BYTES, 64 << 20, ("MCPDESK_CAPTURE_MEMORY_BYTES",),
            "Maximum size of the recorded messages in memory. Older messages are read from the capture file.",
            least=1 << 20, folder=FolderUse.SET),
    Setting("allowed_origins", SettingKind.LIST, (), ("MCPDESK_ALLOWED_ORIGINS",),
            "Origins of web pages that may call the server, such as http://localhost:5173."),
    Setting("allowed_hosts", SettingKind.LIST, (), ("MCPDESK_ALLOWED_HOSTS",),
            "Host names that requests may use in addition to the names of this machine."),
    Setting("desk_revision", SettingKind.TEXT, "2026-07-28", ("MCPDESK_DESK_REVISION",),
            "Protocol revision that the desk uses to call the servers that it hosts.",
            pattern="2024-11-05|2025-03-26|2025-06-18|2025-11-25|2026-07-28", allowed="a published revision",
            folder=FolderUse.SET),
    Setting("ask_order", SettingKind.TEXT, "desk-first", ("MCPDESK_ASK_ORDER",),
            "Where the tool AskUserQuestion asks: at the desk first, at the calling client first, or at both "
            "at once.", pattern="desk-first|client-first|both", allowed="desk-first, client-first or both"),
    Setting("approvals", SettingKind.LIST, (), ("MCPDESK_APPROVALS",),
            "Policy of each tool, such as Bash=ask. The name * stands for all tools that are not listed, as "
            "in *=allow. With ask, you approve each call at the desk.", pattern=r"[^\s,=]+=(allow|ask|deny)",
            allowed="TOOL=allow, TOOL=ask or TOOL=deny", folder=FolderUse.TIGHTEN),
    Setting("output_chars", SettingKind.INTEGER, 30_000, ("MCPDESK_OUTPUT_CHARS",),
            "Maximum number of characters of a program's output or a web page in a result. A file contains "
            "the complete text.", least=2000, most=1_000_000, folder=FolderUse.SET),
    Setting("search_engines", SettingKind.LIST, (), ("MCPDESK_SEARCH_ENGINES",),
            "Engines that WebSearch uses. By default, eleven engines and the engines in search_urls.",
            pattern="|".join(SEARCH_ENGINES), allowed=f"names of engines ({', '.join(SEARCH_ENGINES)})",
            folder=FolderUse.SET),
    Setting("search_urls", SettingKind.LIST, (), ("MCPDESK_SEARCH_URLS",),
            "Addresses that replace the usual addresses of engines, such as searxng=https://search.example.",
            pattern=rf"({'|'.join(SEARCH_ENGINES)})=https?://[^\s,]+",
            allowed=f"NAME=URL where NAME is an engine ({', '.join(SEARCH_ENGINES)})", folder=FolderUse.SET),
    Setting("search_timeout_ms", SettingKind.INTEGER, 8000, ("MCPDESK_SEARCH_TIMEOUT_MS",),
            "Time limit of one search engine, in milliseconds. Later answers are ignored.", least=1,
            folder=FolderUse.SET),
    Setting("read_private_urls", SettingKind.SWITCH, False, ("MCPDESK_READ_PRIVATE_URLS",),
            "If true, ReadDocs may read pages of private networks. It may always read from this machine."),
    Setting("watch_polling", SettingKind.SWITCH, False, ("MCPDESK_WATCH_POLLING",),
            "If true, files are checked for changes at intervals. Use it for network and container mounts.",
            folder=FolderUse.SET),
    Setting("web", SettingKind.TEXT, "", ("MCPDESK_WEB",),
            "Address of the desk in a browser. The flag without a value uses 127.0.0.1:3334. Needs the extra "
            "`web`.", pattern=WEB_ADDRESS, allowed="HOST:PORT, or a port alone"),
    Setting("log_format", SettingKind.TEXT, "text", ("MCPDESK_LOG_FORMAT",),
            "Format of the logs of serve and stdio on stderr: text, or one JSON object per line.",
            pattern="text|json", allowed="text or json"),
    Setting("disabled_features", SettingKind.LIST, (), ("MCPDESK_DISABLED_FEATURES",),
            "Optional features to switch off. Only the environment variable has an effect.",
            pattern="|".join(FEATURES), allowed=", ".join(FEATURES)),
    Setting("shared", SettingKind.SECRET, "", ("MCPDESK_SHARED",),
            "URL of the Valkey or Redis engine that stores the shared state of replicas: redis://, "
            "rediss://, unix://, redis+sentinel:// or redis+cluster://.",
            pattern=r"(rediss?(\+sentinel|\+cluster)?|unix)://\S+", allowed="the URL of an engine"),
    Setting("shared_name", SettingKind.TEXT, "mcpdesk", ("MCPDESK_SHARED_NAME",),
            "Name of the deployment on the engine. Replicas with the same name share their state.",
            pattern=r"[A-Za-z0-9_.-]+", allowed="letters, digits, _, . and -"),
    Setting("shared_mask", SettingKind.SWITCH, False, ("MCPDESK_SHARED_MASK",),
            "If true, secrets are masked in the messages that desks on other machines receive."),
    Setting("replica_url", SettingKind.TEXT, "", ("MCPDESK_REPLICA_URL",),
            "Address at which other replicas reach this one, such as http://10.0.0.7:3333. Default: its "
            "listening address.", pattern=r"https?://[^\s/]+", allowed="http://HOST:PORT"),
    Setting("otel_endpoint", SettingKind.TEXT, "", ("MCPDESK_OTEL_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
            "Address of a collector of traces and metrics (OTLP over HTTP), such as http://127.0.0.1:4318. "
            "Needs the extra `otel`.", pattern=r"(https?://[^\s/@]+(/[^\s@]*)?)?",
            allowed="an http or https URL without a password"),
    Setting("otel_headers", SettingKind.SECRET, "", ("MCPDESK_OTEL_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"),
            "HTTP headers to send to the collector, such as Authorization=Bearer%20TOKEN.",
            pattern=r"([^\s,=]+=[^\s,]*(,\s*[^\s,=]+=[^\s,]*)*)?",
            allowed="NAME=VALUE, several separated by commas; a space in a value is %20"),
    Setting("otel_metrics_ms", SettingKind.INTEGER, 60_000,
            ("MCPDESK_OTEL_METRICS_MS", "OTEL_METRIC_EXPORT_INTERVAL"), least=100,
            help="Time between two exports of metrics, in milliseconds. Traces are sent once a second."),
    Setting("otel_traces_percent", SettingKind.INTEGER, 100, ("MCPDESK_OTEL_TRACES_PERCENT",),
            "Percentage of traces to send. If a call belongs to a trace of its caller, the sampling flag of "
            "that trace decides instead.", most=100),
    Setting("trust", SettingKind.SWITCH, False, ("MCPDESK_TRUST",),
            "If true, configuration files are used without asking whether you trust them."),
    Setting("state_dir", SettingKind.PATH, None, ("MCPDESK_STATE_DIR",),
            "Folder for captures, the API key and histories."),
)  # fmt: skip
BY_NAME = {setting.name: setting for setting in SETTINGS}
BY_VARIABLE = {variable: setting for setting in SETTINGS for variable in setting.environment}
OTHER_VARIABLES = frozenset({"MCPDESK_CONFIG_DIR", "MCPDESK_PROGRAM"})
"""Variables of mcpdesk that are not settings. They are read by `paths` and `client.configs.own_program`."""


class Resolved(Struct, frozen=True):
    """Effective settings, and the origin of each value by setting name."""

    settings: Settings
    origins: Mapping[str, str]


def resolve(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    folder: Path | None = None,
    manifest: Mapping[str, object] | None = None,
) -> Resolved:
    """Resolve the value of every setting. Flags whose value is None are ignored. `folder` may contain env
    files.

    Settings that a folder may not set are ignored in env files and `manifest`. `folder_rights` reports them.

    Raises: DeskUserError with the key, value, origin and allowed values.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for setting_value in _given_values(flags, environ, folder, manifest or {}):
        name = setting_value.setting.name
        value = converted(setting_value)
        if name not in values:
            values[name], origins[name] = value, setting_value.origin
    for setting in SETTINGS:
        if setting.name not in values:
            values[setting.name], origins[setting.name] = setting.default, "default"
    values["state_dir"] = values["state_dir"] or state_folder(environ)
    return Resolved(Settings(**values), origins)


def read_env_file(path: Path) -> Iterator[tuple[str, str, int]]:
    """Yield key, value and line number of each `KEY=value` line. `# ...` is a comment; values may be quoted.

    Raises: DeskUserError for a line of another form or a file that is not UTF-8.
    """
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        raise DeskUserError(f"{path}: cannot be read: {error}.", "It must be UTF-8 text.") from error
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip().removeprefix("export ")
        if not line or line.startswith("#"):
            continue
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise DeskUserError(f"{path}:{number}: {line!r} is not KEY=value.", "Write one KEY=value a line.")
        yield key.strip(), _unquoted(value.strip()), number


def read_env_files(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield key, value and position (`mcpdesk-env.txt:3`) of each line of a folder's env files.

    A key in the first file hides the same key in the second.

    Raises: DeskUserError as `read_env_file`.
    """
    earlier_keys: set[str] = set()
    for name in ENV_FILES:
        lines = list(read_env_file(folder / name))
        yield from ((key, value, f"{name}:{line}") for key, value, line in lines if key not in earlier_keys)
        earlier_keys |= {key for key, _, _ in lines}


def _given_values(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    folder: Path | None,
    manifest: Mapping[str, object],
) -> Iterator[GivenValue]:
    """Yield all given values, highest precedence first."""
    for name, value in flags.items():
        if value is not None:
            yield GivenValue(BY_NAME[name], value, f"flag {BY_NAME[name].flag}")
    yield from _from_environment(environ)
    if folder is not None:
        yield from _from_env_files(folder)
    for name, value in manifest.items():
        setting = BY_NAME.get(name)
        if setting is None:
            raise _unknown(name, value, "mcp.json", list(BY_NAME))
        yield from within_rights(GivenValue(setting, value, "mcp.json"))


def _from_environment(environ: Mapping[str, str]) -> Iterator[GivenValue]:
    for name, value in environ.items():
        if name.startswith(OWN_PREFIX) and name not in BY_VARIABLE and name not in OTHER_VARIABLES:
            raise _unknown(name, value, "environment", list(BY_VARIABLE))
    for setting in SETTINGS:
        for name in setting.environment:
            if environ.get(name, "").strip():
                yield GivenValue(setting, environ[name], f"environment {name}")


def _from_env_files(folder: Path) -> Iterator[GivenValue]:
    for value in env_file_settings(folder):
        yield from within_rights(value)


def env_file_settings(folder: Path) -> Iterator[GivenValue]:
    """Yield the settings in the env files of a folder, highest precedence first.

    Settings that a folder may not set are included.

    Raises: DeskUserError as `read_env_file`, and for a variable that looks like a misspelt setting. In the
    env file of another program, only names that begin with `MCPDESK_` are checked.
    """
    for name in ENV_FILES:
        values: dict[str, tuple[str, int]] = {}
        for key, value, line in read_env_file(folder / name):
            if is_setting(key):
                values[key] = value, line
            elif key.startswith(OWN_PREFIX) or (name == ENV_FILE and _looks_like_setting(key)):
                raise _unknown(key, value, f"{name}:{line}", list(BY_VARIABLE))
        for setting in SETTINGS:
            for key in setting.environment:
                value, line = values.get(key, ("", 0))
                if value:
                    yield GivenValue(setting, value, f"{name}:{line} {key}")


def within_rights(setting_value: GivenValue) -> Iterator[GivenValue]:
    """Yield the value from a server folder, without the parts that a folder may not set. Yield nothing if no
    part remains.

    Raises: DeskUserError for an invalid value, even if the folder may not set it.
    """
    value = converted(setting_value)
    if setting_value.setting.folder is FolderUse.SET:
        yield setting_value
    elif setting_value.setting.folder is FolderUse.TIGHTEN:
        strict_policies = tuple(item for item in value if not is_allow_policy(item))
        if strict_policies:
            yield GivenValue(setting_value.setting, strict_policies, setting_value.origin)


def is_allow_policy(policy: str) -> bool:
    """Return True for `TOOL=allow`, which a folder may not set."""
    return policy.endswith("=allow")


def _unknown(key: str, value: object, origin: str, allowed_names: list[str]) -> DeskUserError:
    import difflib

    similar_names = difflib.get_close_matches(key, allowed_names, n=1)
    value = HIDDEN if re.search("key|secret|token|password", key, re.IGNORECASE) else value
    hint = f"Did you mean {similar_names[0]}?" if similar_names else f"Known: {', '.join(allowed_names)}."
    return DeskUserError(f"{key}: unknown setting (value {value!r}, {origin}).", hint)


def is_setting(variable: str) -> bool:
    """Return True if a variable is a setting. Other variables of an env file are for the folder's code."""
    return variable in BY_VARIABLE


def _looks_like_setting(key: str) -> bool:
    import difflib

    return bool(difflib.get_close_matches(key, BY_VARIABLE, n=1, cutoff=MIN_SIMILARITY))


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] in "'\"" and (end := value.find(value[0], 1)) > 0:
        return value[1:end]
    return re.split(r"(?:^|\s)#", value, maxsplit=1)[0].strip()
