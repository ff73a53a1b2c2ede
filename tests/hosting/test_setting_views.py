"""Settings as the screen shows them."""

from __future__ import annotations

from pathlib import Path

from mcpdesk.hosting.host_plan import plan_for
from mcpdesk.hosting.setting_views import SettingView, setting_views
from mcpdesk.settings import SETTINGS
from tests.support.folders import write


def views(folder: Path, **flags: object) -> dict[str, SettingView]:
    plan = plan_for([folder], flags, {"MCPDESK_API_KEY": "hidden-key"})
    return {each.name: each for each in setting_views(plan)}


def test_each_setting_has_its_value_its_origin_and_the_ways_to_change_it(tmp_path: Path) -> None:
    manifest = '{"name": "near", "settings": {"tool_timeout_ms": 500}}'
    found = views(write(tmp_path / "near", {"mcp.json": manifest}), port=4000)
    assert list(found) == [each.name for each in SETTINGS]
    assert (found["port"].value, found["port"].origin) == ("4000", "flag --port")
    assert found["port"].changed_by == ("the option --port", "the variable MCPDESK_PORT")
    limit = found["tool_timeout_ms"]
    assert limit.value == "500" and "mcp.json" in limit.origin
    assert "settings.tool_timeout_ms in mcp.json" in limit.changed_by


def test_a_secret_is_masked_and_has_no_option(tmp_path: Path) -> None:
    key = views(write(tmp_path / "near", {"mcp.json": "{}"}))["api_key"]
    assert "hidden-key" not in str(key) and key.value == "••••"
    assert key.changed_by == ("the variable MCPDESK_API_KEY",)
