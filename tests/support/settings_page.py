"""The page `docs/settings.md`, made from the settings; run as a module, it prints the page."""

from __future__ import annotations

from mcpdesk.settings import SETTINGS, Setting, SettingKind, allowed, value_text

HEAD = """\
# Settings

<!-- Made from mcpdesk/settings.py: python -m tests.support.settings_page > docs/settings.md -->

A flag, an environment variable, `mcpdesk-env.txt` in the folder (`KEY=value` lines), `settings` in its
`mcp.json`, the default: the first that says something wins. `mcpdesk settings FOLDER` shows each value and
where it came from, and the places where captures, the key and themes are kept; `--explain` adds what each
setting does. The flag of `tool_timeout_ms` is `--tool-timeout-ms`; secrets have no flag.

The column `folder` says whether `mcp.json` and `mcpdesk-env.txt` may set it. They cannot decide who reaches
or steers the desk: a value they may not set is ignored, with a warning on the desk and in the log, and
`mcpdesk check` reports it as an error. Set it with a flag or in the environment instead.

| setting | environment, the first that is set wins | default | folder | what it does |
| --- | --- | --- | --- | --- |
"""


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
    rows = [
        f"| {each.name} | {', '.join(f'`{name}`' for name in each.environment)} | {default_of(each)} "
        f"| {each.folder} | {each.help} Allowed: {allowed(each)}. |".replace("<", "&lt;")
        for each in SETTINGS
    ]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(page(), end="")
