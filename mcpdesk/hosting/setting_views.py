"""Settings of a core, with their values as text and the ways to change them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from mcpdesk.hosting.host_plan import HostPlan
from mcpdesk.setting_values import FolderUse, Setting, SettingKind, allowed, value_text
from mcpdesk.settings import SETTINGS


class SettingView(Struct, frozen=True):
    """Setting of a core, with its current value as text."""

    name: str
    value: str
    """Value as text. A secret is masked."""
    origin: str
    """Source of the value, such as `default`, `flag --port` or `environment PORT`."""
    help: str
    allowed: str
    """Description of the allowed values."""
    changed_by: tuple[str, ...] = ()
    """Ways to change the setting, such as `the option --port`. The core reads them when it starts."""


def setting_views(plan: HostPlan) -> tuple[SettingView, ...]:
    """Return the settings of a plan in the order of the settings table."""
    return tuple(
        SettingView(
            setting.name,
            value_text(setting, getattr(plan.settings, setting.name)),
            plan.origins.get(setting.name, "default"),
            setting.help,
            allowed(setting),
            tuple(_change_methods(setting)),
        )
        for setting in SETTINGS
    )


def _change_methods(setting: Setting) -> Iterator[str]:
    """Yield the ways to change a setting. Secrets have no option, because other users can read options."""
    if setting.kind is not SettingKind.SECRET:
        yield f"the option {setting.flag}"
    yield f"the variable {setting.environment[0]}"
    if setting.folder is not FolderUse.NOT:
        stricter = " (stricter values only)" if setting.folder is FolderUse.TIGHTEN else ""
        yield f"settings.{setting.name} in mcp.json{stricter}"
