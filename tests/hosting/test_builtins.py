"""Built-in tools by name, with what comes along."""

from __future__ import annotations

import pytest

from mcpdesk.hosting.hosted_folder import built_in, resources_of


def test_a_name_is_made_one_tool_once() -> None:
    assert built_in("Bash") is built_in("Bash")
    assert {built_in(name).name for name in ("ReadBgOutput", "KillBgTask")} == {"ReadBgOutput", "KillBgTask"}


def test_an_unknown_name_is_no_tool() -> None:
    with pytest.raises(KeyError):
        built_in("bash")


def test_resources_come_with_their_tool_and_once() -> None:
    assert [each.name for each in resources_of(["SetCallback", "Bash", "SetCallback"])] == ["callback"]
    assert resources_of(["ReadBgOutput", "KillBgTask"]) == []
