"""Every setting: its sources, its values, and the errors about invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import fields

from mcpdesk.errors import DeskUserError
from mcpdesk.setting_values import MAX_NUMBER, FolderUse, SettingKind, value_text
from mcpdesk.settings import BY_NAME, SETTINGS, Settings, read_env_file, resolve


def test_table_and_settings_name_the_same_things() -> None:
    assert [field.name for field in fields(Settings)] != []
    assert {field.name for field in fields(Settings)} == set(BY_NAME)


def test_no_variable_means_two_settings() -> None:
    names = [name for setting in SETTINGS for name in setting.environment]
    assert len(names) == len(set(names))


DEFAULTS: dict[str, dict[str, object]] = {
    "address": {"host": "127.0.0.1", "port": 3333, "socket": None, "web": "", "enable_mcp": True},
    "callers": {
        "api_key": "",
        "api_key_header": "X-API-Key",
        "operator_key": "",
        "token": "",
        "no_auth": False,
        "allowed_origins": (),
        "allowed_hosts": (),
        "approvals": (),
        "trust": False,
    },
    "tools and questions": {
        "tools": True,
        "tool_timeout_ms": 30_000,
        "question_timeout_ms": 600_000,
        "ask_order": "desk-first",
        "streaming": True,
        "model": "",
        "page_size": 1000,
        "output_chars": 30_000,
        "output_dirs": ("/tmp",),
        "search_engines": (),
        "search_urls": (),
        "search_timeout_ms": 8_000,
        "read_private_urls": False,
    },
    "recording and files": {
        "capture": True,
        "capture_keep_bytes": 1 << 30,
        "capture_keep_age": 30 * 24 * 3600,
        "capture_max_bytes": 1 << 30,
        "capture_body_bytes": 64 << 10,
        "capture_memory_bytes": 64 << 20,
        "outputs_keep_bytes": 1 << 30,
        "log_format": "text",
        "disabled_features": (),
        "state_dir": None,
    },
    "upstream servers and the desk": {
        "connect_timeout_s": 30,
        "keep_open_s": 1800,
        "desk_revision": "2026-07-28",
        "watch_polling": False,
    },
    "jobs and tasks": {
        "job_timeout_ms": 3_600_000,
        "job_ttl_s": 3600,
        "jobs_at_once": 16,
        "max_tasks": 1000,
        "task_ttl_s": 3600,
    },
    "many machines and restarts": {
        "shared": "",
        "shared_name": "mcpdesk",
        "shared_mask": False,
        "replica_url": "",
        "request_state_secret": "",
        "drain_timeout_s": 30,
        "lame_duck_s": 5,
    },
    "telemetry": {
        "otel_endpoint": "",
        "otel_headers": "",
        "otel_metrics_ms": 60_000,
        "otel_traces_percent": 100,
    },
    "limits": {
        "max_body_bytes": 16 << 20,
        "max_bodies_bytes": 256 << 20,
        "unread_answers_max_bytes": 256 << 20,
        "session_ttl_s": 3600,
        "request_timeout_s": 30,
        "max_connections": 1000,
        "max_sessions": 10_000,
        "max_in_flight": 1024,
        "max_subscriptions": 1000,
        "max_threads": 64,
        "resume_bytes": 1 << 20,
    },
}
"""Default of every setting, by subject."""
FROM_ZERO = (
    "port",
    "drain_timeout_s",
    "lame_duck_s",
    "task_ttl_s",
    "resume_bytes",
    "capture_keep_bytes",
    "capture_keep_age",
    "capture_max_bytes",
    "capture_body_bytes",
    "otel_traces_percent",
)
"""Numbers that may be 0."""
LEAST = {
    **dict.fromkeys(FROM_ZERO, 0),
    "max_body_bytes": 1 << 10,
    "max_bodies_bytes": 1 << 10,
    "unread_answers_max_bytes": 1 << 20,
    "outputs_keep_bytes": 64 << 10,
    "capture_memory_bytes": 1 << 20,
    "output_chars": 2_000,
    "otel_metrics_ms": 100,
}
"""Lower limit of numbers; 1 for the others."""
MOST = {
    "port": 65_535,
    "page_size": 10_000,
    "lame_duck_s": 600,
    "keep_open_s": 604_800,
    "output_chars": 1_000_000,
    "otel_traces_percent": 100,
}
"""Upper limit of numbers that have one."""


def test_every_default_is_the_documented_one(tmp_path: Path) -> None:
    expected = {name: value for group in DEFAULTS.values() for name, value in group.items()}
    assert set(expected) == set(BY_NAME), "add the setting to DEFAULTS in tests/test_settings.py"
    assert {setting.name: setting.default for setting in SETTINGS} == expected
    resolved = resolve({}, {"MCPDESK_STATE_DIR": str(tmp_path)})
    effective = {name: getattr(resolved.settings, name) for name in BY_NAME}
    assert effective == expected | {"state_dir": tmp_path}
    assert resolved.origins == dict.fromkeys(BY_NAME, "default") | {
        "state_dir": "environment MCPDESK_STATE_DIR"
    }


def test_numbers_have_the_documented_limits() -> None:
    numbers = [
        setting
        for setting in SETTINGS
        if setting.kind in (SettingKind.INTEGER, SettingKind.BYTES, SettingKind.DURATION)
    ]
    assert MAX_NUMBER == 2**53
    for setting in numbers:
        limits = LEAST.get(setting.name, 1), MOST.get(setting.name, MAX_NUMBER)
        assert (setting.least, setting.most) == limits, setting.name
        for allowed in limits:
            assert getattr(resolve({setting.name: allowed}, {}).settings, setting.name) == allowed
        for refused in (limits[0] - 1, limits[1] + 1):
            with pytest.raises(DeskUserError):
                resolve({setting.name: refused}, {})


def test_stronger_origin_wins(tmp_path: Path) -> None:
    env_file = tmp_path / "mcpdesk-env.txt"
    env_file.write_text("# ours\nMCPDESK_PAGE_SIZE=3\n")
    flags: dict[str, object] = {"page_size": 1, "host": None}
    environ = {"MCPDESK_PAGE_SIZE": "2"}
    manifest = {"page_size": 4}
    expected = [
        (resolve(flags, environ, tmp_path, manifest), 1, "flag --page-size"),
        (resolve({}, environ, tmp_path, manifest), 2, "environment MCPDESK_PAGE_SIZE"),
        (resolve({}, {}, tmp_path, manifest), 3, "mcpdesk-env.txt:2 MCPDESK_PAGE_SIZE"),
        (resolve({}, {}, tmp_path / "none", manifest), 4, "mcp.json"),
        (resolve({}, {}), 1000, "default"),
    ]
    for resolved, value, origin in expected:
        assert (resolved.settings.page_size, resolved.origins["page_size"]) == (value, origin)


def test_empty_variable_counts_as_not_set() -> None:
    assert resolve({}, {"PORT": "", "MCPDESK_HOST": " "}).origins["port"] == "default"


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("port", " 80 ", 80),
        ("port", 0, 0),
        ("tools", "Yes", True),
        ("tools", "off", False),
        ("tools", False, False),
        ("max_body_bytes", "64K", 65536),
        ("max_body_bytes", "2 MiB", 2 << 20),
        ("max_body_bytes", "1gb", 1 << 30),
        ("max_body_bytes", 4096, 4096),
        ("allowed_hosts", "a.example, b.example", ("a.example", "b.example")),
        ("allowed_hosts", ["a.example"], ("a.example",)),
        ("socket", "~/desk.sock", Path.home() / "desk.sock"),
        ("model", "sonnet", "sonnet"),
        ("api_key_header", "X-My-Key", "X-My-Key"),
    ],
)
def test_value_is_read_as_it_is_written(name: str, given: object, value: object) -> None:
    assert getattr(resolve({name: given}, {}).settings, name) == value


@pytest.mark.parametrize(
    ("name", "given", "allowed"),
    [
        ("port", "http", "a whole number from 0 to 65535"),
        ("port", "65536", "a whole number from 0 to 65535"),
        ("port", -1, "a whole number"),
        ("port", 80.5, "a whole number"),
        ("port", True, "a whole number"),
        ("port", None, "a whole number"),
        ("port", [80], "a whole number"),
        ("page_size", 0, "a whole number from 1 to 10000"),
        ("tools", "maybe", "true or false"),
        ("tools", 1, "true or false"),
        ("max_body_bytes", "12 parsecs", "a number of bytes, at least 1024"),
        ("max_body_bytes", "1K5", "a number of bytes"),
        ("allowed_hosts", [1], "a list of texts"),
        ("allowed_hosts", {"a": 1}, "a list of texts"),
        ("host", "a b", "a host name or an address"),
        ("host", 1, "a host name or an address"),
        ("api_key_header", "X Key:", "an HTTP header name"),
        ("socket", 3, "a path"),
    ],
)
def test_bad_value_names_key_value_origin_and_what_is_allowed(name: str, given: object, allowed: str) -> None:
    with pytest.raises(DeskUserError) as caught:
        resolve({}, {}, None, {name: given})
    assert str(caught.value).startswith(f"{name}: {given!r} (mcp.json)")
    assert allowed in caught.value.hint


def test_weaker_bad_value_is_told_as_well() -> None:
    with pytest.raises(DeskUserError, match="environment PORT"):
        resolve({"port": 80}, {"PORT": "x"})


@pytest.mark.parametrize(
    ("environ", "manifest", "origin", "hint"),
    [
        (
            {"MCPDESK_PROT": "80"},
            {},
            "MCPDESK_PROT: unknown setting (value '80', environment)",
            "MCPDESK_PORT",
        ),
        ({}, {"prot": 80}, "prot: unknown setting (value 80, mcp.json)", "Did you mean port?"),
        ({}, {"zzzzzz": 1}, "zzzzzz: unknown setting", "Known: host, port"),
    ],
)
def test_unknown_key_is_told_with_the_nearest_known_one(
    environ: dict[str, str], manifest: dict[str, object], origin: str, hint: str
) -> None:
    with pytest.raises(DeskUserError) as caught:
        resolve({}, environ, None, manifest)
    assert origin in str(caught.value)
    assert hint in caught.value.hint


def test_secret_is_shown_in_no_message() -> None:
    for variable in ("MCPDESK_API_KEY", "MCPDESK_API_KEYS", "MCPDESK_REQUEST_STATE_SECRET"):
        environ = {variable: "hush hush"}
        with pytest.raises(DeskUserError) as caught:
            resolve({}, environ)
        assert "hush" not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize("given", ["s" * 31, f"{'s' * 32},", f"{'s' * 32},short", f"{'s' * 32}, {'t' * 32}"])
def test_a_secret_that_signs_is_long_and_its_hint_says_how_long(given: str) -> None:
    with pytest.raises(DeskUserError) as caught:
        resolve({}, {"MCPDESK_REQUEST_STATE_SECRET": given})
    assert "32 or more visible ASCII characters" in caught.value.hint


NOT_OF_FOLDERS = """
    host port socket api_key api_key_header request_state_secret no_auth output_dirs allowed_origins
    allowed_hosts ask_order read_private_urls web log_format shared shared_name shared_mask replica_url
    disabled_features otel_endpoint otel_headers otel_metrics_ms otel_traces_percent state_dir
"""


def test_what_folders_may_not_set_is_what_opens_steers_or_watches_the_core() -> None:
    found = {setting.name for setting in SETTINGS if setting.folder is FolderUse.NOT}
    assert found >= set(NOT_OF_FOLDERS.split())


VALID = {
    "request_state_secret": "s" * 32,
    "ask_order": "both",
    "capture": "false",
    "web": "1",
    "log_format": "json",
    "disabled_features": "openapi",
    "shared": "redis://x",
    "replica_url": "http://a:1",
    "otel_endpoint": "http://a",
    "otel_headers": "a=b",
    "otel_traces_percent": "10",
}
OF_KIND = {
    SettingKind.BYTES: "1M",
    SettingKind.DURATION: "2d",
    SettingKind.INTEGER: "200",
    SettingKind.SWITCH: "true",
    SettingKind.LIST: "/x",
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", [each.name for each in SETTINGS if each.folder is FolderUse.NOT])
def test_a_value_that_a_folder_may_not_set_does_not_count(name: str, tmp_path: Path) -> None:
    setting, env_file = BY_NAME[name], tmp_path / "mcpdesk-env.txt"
    value = VALID.get(name) or OF_KIND.get(setting.kind) or "other"
    env_file.write_text(f"{setting.environment[0]}={value}\n")
    environ = {"HOME": str(tmp_path)}
    usual = resolve({}, environ)
    assert getattr(resolve({name: value}, environ).settings, name) != getattr(usual.settings, name)
    for resolved in (resolve({}, environ, None, {name: value}), resolve({}, environ, tmp_path)):
        assert getattr(resolved.settings, name) == getattr(usual.settings, name)
        assert resolved.origins[name] == "default"


def test_a_folder_makes_policies_stricter_and_never_looser(tmp_path: Path) -> None:
    env_file = tmp_path / "mcpdesk-env.txt"
    manifest = {"approvals": ["Bash=ask", "*=allow", "Read=deny"]}
    assert resolve({}, {}, None, manifest).settings.approvals == ("Bash=ask", "Read=deny")
    env_file.write_text("MCPDESK_APPROVALS=*=allow\n")
    assert resolve({}, {}, tmp_path).origins["approvals"] == "default"
    assert resolve({"approvals": "*=allow"}, {}, None, manifest).settings.approvals == ("*=allow",)


def test_env_file_has_comments_quotes_and_exports(tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_text(
        "\ufeffTOOLS=true # offered\n\n# a line\nexport MODEL='a # b'\nPORT = 80\n"
        "MCPDESK_API_KEY=a#b\nDZX_HOST=\n"
    )
    assert list(read_env_file(path)) == [
        ("TOOLS", "true", 1),
        ("MODEL", "a # b", 4),
        ("PORT", "80", 5),
        ("MCPDESK_API_KEY", "a#b", 6),
        ("DZX_HOST", "", 7),
    ]


@pytest.mark.parametrize("content", [b"PORT 80\n", b"=80\n", b"\xff\xfe"])
def test_unreadable_env_file_is_told_with_its_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mcpdesk-env.txt"
    path.write_bytes(content)
    with pytest.raises(DeskUserError, match=str(path)):
        resolve({}, {}, tmp_path)


def test_unknown_key_in_the_env_file_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "mcpdesk-env.txt"
    path.write_text("\nTOOL=true\n")
    with pytest.raises(
        DeskUserError, match=r"TOOL: unknown setting \(value 'true', mcpdesk-env.txt:2\)"
    ) as caught:
        resolve({}, {}, tmp_path)
    assert caught.value.hint == "Did you mean TOOLS?"


def test_the_env_file_of_scorpiox_counts_below_ours_and_with_the_same_rights(tmp_path: Path) -> None:
    (tmp_path / "scorpiox-env.txt").write_text(
        "# MCP-related settings\nTOOLS=true\nSTREAMING=false   # Stream tool results\nMODEL=sonnet\n"
        "PROT=another program's own\nPORT=80\n"
    )
    (tmp_path / "mcpdesk-env.txt").write_text("TOOLS=false\n")
    resolved = resolve({}, {}, tmp_path)
    settings, origins = resolved.settings, resolved.origins
    assert (settings.tools, origins["tools"]) == (False, "mcpdesk-env.txt:1 TOOLS")
    assert (settings.streaming, origins["streaming"]) == (False, "scorpiox-env.txt:3 STREAMING")
    assert settings.model == "sonnet" and settings.port == 3333
    (tmp_path / "scorpiox-env.txt").write_text("MCPDESK_STREAMIN=false\n")
    with pytest.raises(DeskUserError, match=r"MCPDESK_STREAMIN: unknown setting .*scorpiox-env.txt:1"):
        resolve({}, {}, tmp_path)


def test_values_are_shown_as_they_would_be_written() -> None:
    settings = resolve({"api_key": "hush"}, {}).settings
    texts = {setting.name: value_text(setting, getattr(settings, setting.name)) for setting in SETTINGS}
    assert texts["api_key"] == "••••"
    assert texts["tools"] == "true"
    assert texts["socket"] == texts["allowed_hosts"] == texts["model"] == "none"
    assert texts["port"] == "3333"


def test_every_setting_is_explained_and_of_a_known_kind() -> None:
    for setting in SETTINGS:
        assert setting.help.endswith((".", "example.")), setting.name
        assert setting.environment[0] == f"MCPDESK_{setting.name.upper()}"
        assert setting.kind in SettingKind


def test_a_duration_has_a_unit_or_is_seconds(tmp_path: Path) -> None:
    for text, seconds, shown in (
        ("90", 90, "90s"), ("90m", 5_400, "90m"), ("48h", 172_800, "2d"), ("2w", 1_209_600, "14d"),
        ("0", 0, "0"),
    ):  # fmt: skip
        settings = resolve({}, {"MCPDESK_CAPTURE_KEEP_AGE": text}).settings
        assert settings.capture_keep_age == seconds
        assert value_text(BY_NAME["capture_keep_age"], seconds) == shown
    with pytest.raises(
        DeskUserError, match=r"'soon' \(environment MCPDESK_CAPTURE_KEEP_AGE\) is not allowed"
    ):
        resolve({}, {"MCPDESK_CAPTURE_KEEP_AGE": "soon"})
