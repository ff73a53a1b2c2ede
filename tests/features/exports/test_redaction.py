"""A redacted capture holds none of the secrets that were planted, and is a capture still."""

from __future__ import annotations

import json
import string
import sys
from base64 import b64encode
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.masking import MASK
from mcpdesk.recorder.record import MAX_KEPT_BYTES, HeldMark, HttpNote
from tests.support.traffic import IN, OUT, call, connection, notification, request, result, settle, text

pytestmark = pytest.mark.process

if TYPE_CHECKING:
    from tests.cli.conftest import Run

_random = Random(50)


def secret(prefix: str = "", length: int = 24, letters: str = string.ascii_letters + string.digits) -> str:
    return prefix + "".join(_random.choices(letters, k=length))


HEADERS = {
    name: secret(prefix)
    for name, prefix in (
        ("Authorization", "Bearer "), ("Proxy-Authorization", "Digest "), ("X-API-Key", ""), ("Api-Key", ""),
        ("Cookie", "sid="), ("Set-Cookie", "sid="), ("X-Auth-Token", ""), ("X-CSRF-Token", ""),
        ("X-Amz-Security-Token", ""), ("X-Desk-Key", ""), ("Mcp-Session-Id", ""), ("X-Client-Secret", ""),
    )
}  # fmt: skip
MEMBERS = {
    name: secret()
    for name in (
        "password", "clientSecret", "api_key", "access_token", "refreshToken", "private_key", "credentials",
        "passphrase", "secretAccessKey", "AccountKey",
    )
}  # fmt: skip
LINES = {
    "GITHUB_TOKEN={}": secret(),
    "export DB_PASSWORD='{}'": secret(),
    "AWS_SECRET_ACCESS_KEY={} aws s3 ls": secret(),
    "deploy --token {} --dry-run": secret(),
    "deploy --client-secret={}": secret(),
    "password: {}": secret(),
    "api_key: {}": secret(),
    "{{client_secret: {}}}": secret(),
    "user: ada\n  db_password : '{}'": secret(),
    "-----BEGIN PRIVATE KEY-----\nMIIE\n{}\n": secret(length=64),
    "Authorization: token {}": secret(),
    "Cookie: a=1; sid={}": secret(),
    "postgres://ada:{}@db/main": secret(),
    "https://a.test/cb?code={}&state=1": secret(),
    "https://a.test/x?api_key={}": secret(),
    "/in?to=http%3A%2F%2Fh%3Ftoken%3D{}": secret(),
    "said Bearer {} to it": secret(),
    "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----": secret(length=64),
}
SHAPES = [
    secret(prefix, length)
    for prefix, length in (
        ("ghp_", 36), ("github_pat_", 40), ("glpat-", 20), ("xoxb-", 24), ("sk-", 40), ("AIza", 35),
        ("npm_", 36), ("hf_", 34), ("sk_live_", 24),
    )
]  # fmt: skip
SHAPES += [
    secret("AKIA", 16, string.ascii_uppercase),
    secret("eyJ", 20) + "." + secret("eyJ", 20) + "." + secret(),
]
LISTED = [secret() for _ in range(4)]
DESK_KEY, BASIC, NESTED, HELD, WORD, NUMBER = *(secret() for _ in range(5)), "918273645546"
PLANTED = [
    *(value.rpartition(" ")[2].removeprefix("sid=") for value in HEADERS.values()),
    *MEMBERS.values(), *LINES.values(), *SHAPES, DESK_KEY, BASIC, NESTED, HELD, WORD, NUMBER,
    *LISTED[:3], LISTED[3][4:], MEMBERS["refreshToken"][:12],
]  # fmt: skip


def planted(path: Path) -> Path:
    """A capture with every secret, some of them also in places where no name marks them as secret."""
    recording = Recording(path)
    recording.start()
    recording.connect(connection(1, f"client of https://ada:{LINES['postgres://ada:{}@db/main']}@a.test"))
    basic = b64encode(f"ada:{BASIC}".encode()).decode()
    headers = (*HEADERS.items(), ("Authorization", f"Basic {basic}"), ("Host", "a.test"))
    note = HttpNote(f"POST /mcp/profiles?api_key={MEMBERS['api_key']} HTTP/1.1", headers)
    opening = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
    info = {"clientInfo": {"name": "c", "version": "1"}, "serverInfo": {"name": "s", "version": "1"}}
    hidden = {"type": "object", "properties": {"word": {"type": "string", "format": "password"}}}
    recording.frame(1, IN, request(8, "initialize", opening | info))
    recording.frame(1, OUT, result(8, opening | info))
    recording.frame(1, IN, request(9, "tools/list"))
    recording.frame(1, OUT, result(9, {"tools": [{"name": "login", "inputSchema": hidden}]}))
    nested = json.dumps({"config": json.dumps({"token": NESTED, "pin": int(NUMBER)})})
    recording.frame(
        1, IN, call(1, "login", {**MEMBERS, "deep": [nested], "word": WORD, "user": "ada"}), note=note
    )
    told = "what expired is gone"
    lines = [told, *(line.format(value) for line, value in LINES.items())]
    for line in (*lines, *SHAPES):
        recording.frame(1, OUT, notification("notifications/message", {"level": "info", "data": line}))
    recording.frame(1, OUT, "\n".join(lines).encode())  # a log, no JSON
    again = " ".join([MEMBERS["password"], BASIC, DESK_KEY, quote(NESTED), HEADERS["X-API-Key"]])
    encoded = b64encode(json.dumps({"was": MEMBERS["passphrase"]}).encode()).decode()
    recording.frame(1, OUT, text(1, f"the token: expired. welcome ada {again} {encoded}"))
    recording.frame(1, IN, call(2, "echo", {MEMBERS["clientSecret"]: "harmless"}))
    recording.frame(
        1,
        IN,
        call(
            3,
            "start",
            {
                "args": ["--api-key", LISTED[0], "--verbose", "on"],
                "headers": [["Authorization", LISTED[1]]],
                "env": [{"name": "DB_PASSWORD", "value": LISTED[2]}],
                "required": ["password", "harmless"],
            },
        ),
    )
    far = {"padding": "x" * 2 * MAX_KEPT_BYTES, "password": LISTED[3], "last": "the end"}
    whole = result(3, {"structuredContent": far})
    at = whole.index(LISTED[3].encode()) + 4
    recording.frame(1, OUT, whole[:MAX_KEPT_BYTES], size=len(whole), end=whole[at:])
    echo = text(4, "x" * MAX_KEPT_BYTES + MEMBERS["refreshToken"])
    cut = echo[: echo.index(MEMBERS["refreshToken"].encode()) + 12]
    recording.frame(1, OUT, cut, size=len(echo))
    recording.frame(1, OUT, b"\xff" + MEMBERS["access_token"].encode())
    recording.frame(1, OUT, result(2, {"content": [{"type": "text", "text": "x" * 2 * MAX_KEPT_BYTES}]}))
    was = call(2, "echo", {"password": HELD}).decode()
    recording.mark(HeldMark(1, IN, 2, 1.0, 0.5, "changed", was, was.replace(HELD, "other-one")))
    settle(recording)
    recording.close()
    return path


def test_fifty_secrets_and_none_is_left(
    mcpdesk: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(set(PLANTED)) >= 50
    monkeypatch.setenv("MCPDESK_API_KEY", DESK_KEY)
    monkeypatch.setenv("MCPDESK_API_KEY_HEADER", "X-Desk-Key")
    capture, shared = planted(tmp_path / "a.jsonl"), tmp_path / "shared.jsonl"
    before = capture.read_text()
    assert all(one in before for one in PLANTED if one != BASIC)
    done = mcpdesk("export", str(capture), "--redact", "--output", str(shared))
    assert done.returncode == 0
    written = {"capture": shared.read_text()}
    for ending in ("md", "har", "jsonl"):
        written[ending] = mcpdesk("export", str(capture), "--redact", "--as", ending).stdout
        assert "welcome ada" in written[ending]
    for ending, exported in written.items():
        assert [one for one in PLANTED if one in exported] == [], ending
        assert "base64" not in exported
    assert "welcome ada" in written["capture"] and "what expired is gone" in written["capture"]
    archive = Archive(shared)
    archive.index.catch_up(float("inf"))
    one = next(one for one in archive.index.exchanges if one.name == "login")
    arguments = json.loads(archive.frame_bytes(one.request or 0))["params"]["arguments"]
    assert arguments["user"] == "ada" and arguments["word"] == MASK and len(one.notifications) == 30
    assert archive.unreadable == 0 and [mark.how for mark in archive.marks] == ["changed"]
    (started,) = (one for one in archive.index.exchanges if one.name == "start")
    asked = json.loads(archive.frame_bytes(started.request or 0))["params"]["arguments"]
    assert asked["args"] == ["--api-key", MASK, "--verbose", "on"] and asked["required"][1] == "harmless"
    answer = archive.frame(started.response or 0)
    assert answer is not None and answer.end.startswith(b',"last":"the end"') and answer.size > MAX_KEPT_BYTES
    archive.close()
    mock = ("--", sys.executable, "-m", "mcpdesk", "stdio", "--mock", str(shared))
    assert mcpdesk("call", "login", "user=ada", *mock).stdout.startswith(
        f"the token: {MASK} welcome ada {MASK}"
    )


def test_single_exchanges_are_redacted_with_what_the_whole_capture_tells(
    mcpdesk: Run, tmp_path: Path
) -> None:
    capture = planted(tmp_path / "a.jsonl")
    shared = mcpdesk("export", str(capture), "--redact", "--filter", "tool:echo").stdout
    numbers = [json.loads(line).get("n") for line in shared.splitlines()]
    assert [number for number in numbers if number is not None] == [0, 1]
    assert "login" not in shared and MEMBERS["clientSecret"] not in shared and "x" * MAX_KEPT_BYTES in shared


def test_what_does_not_go_with_a_redacted_capture_is_said(mcpdesk: Run, tmp_path: Path) -> None:
    capture = str(planted(tmp_path / "a.jsonl"))
    for words, said in (
        (("--redact", "--with-secrets"), "--with-secrets and --redact"),
        ((), "No format was given."),
        (("--redact", "--output", capture), "already exists"),
    ):
        refused = mcpdesk("export", capture, *words)
        assert refused.returncode == 2 and said in refused.stderr and not refused.stdout
