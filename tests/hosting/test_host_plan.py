"""From folders and flags to the settings in force and the plan of a core."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mcpdesk.errors import ManifestError
from mcpdesk.hosting.folder.manifest import read_manifest
from mcpdesk.hosting.host_plan import effective_settings, ignored_settings, late_settings, plan_for


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "small"
    place.mkdir()
    (place / "mcp.json").write_text('{"settings": {"page_size": 7, "max_tasks": 4000}}')
    (place / "mcpdesk-env.txt").write_text("MCPDESK_MAX_TASKS=5000\n")
    return place


def test_folder_has_its_say_below_flags_and_environment(folder: Path) -> None:
    assert effective_settings({}, {}, folder).settings.max_tasks == 5000
    assert effective_settings({}, {}, folder).settings.page_size == 7
    assert effective_settings({}, {"MCPDESK_MAX_TASKS": "6000"}, folder).settings.max_tasks == 6000
    assert effective_settings({"max_tasks": 1}, {"MCPDESK_MAX_TASKS": "6000"}, folder).settings.max_tasks == 1
    assert effective_settings({}, {}).settings.port == 3333


def test_plan_takes_the_first_folders_settings_and_names_a_capture(folder: Path, tmp_path: Path) -> None:
    environ = {"MCPDESK_STATE_DIR": str(tmp_path / "state")}
    plan = plan_for((folder, tmp_path), {}, environ, may_move=True)
    assert plan.folders == (folder, tmp_path)
    assert plan.settings.page_size == 7
    assert plan.origins["page_size"] == "mcp.json:1"
    assert plan.may_move and plan.http
    assert plan.capture is not None
    assert plan.capture.parent == tmp_path / "state" / "captures"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-small\.jsonl", plan.capture.name)


def test_a_plan_without_a_capture(folder: Path, tmp_path: Path) -> None:
    (folder / "mcp.json").write_text('{"settings": {"capture": false}}')
    assert plan_for((folder,), {}, {}).capture is not None  # a server does not decide that it is not recorded
    (folder / "mcp.json").write_text("{}")
    assert plan_for((folder,), {}, {"MCPDESK_CAPTURE": "off"}).capture is None
    assert plan_for((folder,), {"capture": "off"}, {}).capture is None


def test_settings_of_further_folders_are_told_not_to_count(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    told = "max_tasks, page_size of small are ignored: the core uses the settings of the first folder"
    assert ignored_settings((folder,)) == [told]
    assert ignored_settings((tmp_path / "other",)) == ignored_settings(()) == []


def test_bad_manifest_is_told(folder: Path) -> None:
    (folder / "mcp.json").write_text("{")
    with pytest.raises(ManifestError):
        plan_for((folder,), {}, {})


def test_a_mistake_elsewhere_leaves_the_first_folders_settings_in_force(folder: Path, tmp_path: Path) -> None:
    (folder / "mcp.json").write_text('{"version": 1, "settings": {"page_size": 7}}')
    plan = plan_for((folder, tmp_path), {}, {}, withholds_invalid=True)
    assert (plan.settings.page_size, plan.settings.max_tasks) == (7, 5000)
    assert plan.withholds_invalid and not plan.is_unsure
    assert ignored_settings((folder,)) == []


@pytest.mark.parametrize("text", ['{"settings": {"api_key": "k"}', '{"setings": {}', "{api_key: 1}"])
def test_settings_that_cannot_be_read_leave_the_plan_unsure(folder: Path, tmp_path: Path, text: str) -> None:
    (folder / "mcp.json").write_text(text)
    plan = plan_for((folder, tmp_path), {}, {}, withholds_invalid=True)
    assert plan.is_unsure
    assert plan.settings.max_tasks == 5000
    with pytest.raises(ManifestError):
        plan_for((folder, tmp_path), {}, {})


@pytest.mark.parametrize("text", ["{", '{"name": "x",,}', '{"tools": []', '{"version": "1" "name": 2}'])
def test_a_text_that_names_no_setting_leaves_the_defaults_in_force(folder: Path, text: str) -> None:
    (folder / "mcp.json").write_text(text)
    plan = plan_for((folder,), {}, {}, withholds_invalid=True, mode="review")
    assert not plan.is_unsure and plan.withholds_invalid
    assert (plan.settings.page_size, plan.settings.max_tasks) == (
        effective_settings({}, {}).settings.page_size,
        5000,
    )


def test_settings_that_come_too_late_are_those_that_would_have_counted(folder: Path) -> None:
    (folder / "mcp.json").write_text('{"settings": {')
    plan = plan_for((folder,), {"page_size": 3}, {}, withholds_invalid=True)
    counts = '"approvals": ["Bash=ask"]'
    does_not = '"api_key": "k", "page_size": 9, "max_tasks": 4000, "job_ttl_s": 3600'
    mended = f'{{"settings": {{{counts}, {does_not}}}}}'
    (folder / "mcp.json").write_text(mended)
    assert late_settings(plan, read_manifest(folder)) == ["settings.approvals"]
    assert late_settings(plan_for((folder,), {}, {}, withholds_invalid=True), read_manifest(folder)) == []
