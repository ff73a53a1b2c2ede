"""The page `docs/settings.md`, made from the settings; run as a module, it prints the page."""

from __future__ import annotations

from mcpdesk.setting_values import FolderUse, Setting, SettingKind, allowed, value_text
from mcpdesk.settings import SETTINGS

HEAD = """\
# Settings

<!-- Made from mcpdesk/settings.py: python -m tests.support.reference_pages -->

Set a value with a flag, with an environment variable, or in a server folder. These examples do the same:

<!-- not run: each of them serves -->
```sh
mcpdesk serve ~/servers/profiles --tool-timeout-ms 60000
MCPDESK_TOOL_TIMEOUT_MS=60000 mcpdesk serve ~/servers/profiles
```

```json title="mcp.json"
{"name": "profiles", "settings": {"tool_timeout_ms": 60000}}
```

If a setting has several values, the first source in this list wins:

1. The flag, such as `--tool-timeout-ms` for `tool_timeout_ms`. Secrets have no flag.
2. The environment variable, such as `MCPDESK_TOOL_TIMEOUT_MS`. Some settings have further variables; the
   tables list them after "Also".
3. The file `mcpdesk-env.txt` in the server folder, with lines such as `KEY=value`. Then the file
   `scorpiox-env.txt`.
4. The member `settings` of the folder's `mcp.json`.
5. The default.

`mcpdesk settings FOLDER` prints each value with its source. It also prints the folders of captures, keys and
themes. `--explain` adds a description of each setting.

A server folder may set only the settings that are marked with **F** in the tables. The other settings
concern the whole desk, for example who can reach or control it. If a folder sets one of the other settings,
the value is ignored, the desk and the log show a warning, and `mcpdesk check` reports an error. **F, stricter
only** means that a folder may restrict the value further, but not relax it.
"""
GROUPS: dict[str, tuple[str, ...]] = {
    "Address": ("host", "port", "socket", "web", "enable_mcp"),
    "Who may call": (
        "api_key", "api_key_header", "operator_key", "token", "no_auth", "allowed_origins", "allowed_hosts",
        "approvals", "trust",
    ),
    "Tools and questions": (
        "tools", "tool_timeout_ms", "question_timeout_ms", "ask_order", "streaming", "model", "page_size",
        "output_chars", "output_dirs", "search_engines", "search_urls", "search_timeout_ms",
        "read_private_urls",
    ),
    "Recording and files": (
        "capture", "capture_keep_bytes", "capture_keep_age", "outputs_keep_bytes", "log_format", "state_dir",
    ),
    "Upstream servers and the desk": ("connect_timeout_s", "keep_open_s", "desk_revision", "watch_polling"),
    "Jobs and tasks": ("job_timeout_ms", "job_ttl_s", "jobs_at_once", "max_tasks", "task_ttl_s"),
    "Many machines": ("shared", "shared_name", "shared_mask", "replica_url", "request_state_secret"),
    "Restarts": ("drain_timeout_s", "lame_duck_s"),
    "Telemetry": ("otel_endpoint", "otel_headers", "otel_metrics_ms", "otel_traces_percent"),
}  # fmt: skip
"""Settings under each heading. All others are advanced."""
ADVANCED = "Advanced: limits"


def default_of(setting: Setting) -> str:
    """The default in words; sizes in MiB or KiB."""
    if setting.name == "state_dir":
        return "the platform's state folder"
    if setting.kind is SettingKind.BYTES:
        is_large = setting.default >= 1 << 20
        return f"{setting.default >> 20} MiB" if is_large else f"{setting.default >> 10} KiB"
    return value_text(setting, setting.default)


def page() -> str:
    """The whole page."""
    by_name = {setting.name: setting for setting in SETTINGS}
    grouped = {name for names in GROUPS.values() for name in names}
    groups = {**GROUPS, ADVANCED: tuple(name for name in by_name if name not in grouped)}
    return HEAD + "".join(
        f"\n## {heading}\n\n| setting | default | meaning | allowed values |\n| --- | --- | --- | --- |\n"
        + "".join(f"{_row(by_name[name])}\n" for name in names)
        for heading, names in groups.items()
    )


def _row(setting: Setting) -> str:
    mark = {FolderUse.NOT: "", FolderUse.SET: " **F**"}.get(setting.folder, f" **F, {setting.folder}**")
    others = [name for name in setting.environment if name != f"MCPDESK_{setting.name.upper()}"]
    also = f" Also: {', '.join(f'`{name}`' for name in others)}." if others else ""
    text, values = (each.replace("<", "&lt;") for each in (setting.help + also, allowed(setting)))
    return f"| `{setting.name}`{mark} | {default_of(setting)} | {text} | {values} |"


if __name__ == "__main__":
    print(page(), end="")
