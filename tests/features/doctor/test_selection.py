"""Targets of `mcpdesk doctor`."""

from __future__ import annotations

import json

import pytest

from mcpdesk.cli.main import run
from mcpdesk.errors import DeskUserError
from mcpdesk.features.doctor.selection import selected
from tests.features.doctor.conftest import Home, odd, write


@pytest.fixture
def servers(home: Home) -> Home:
    home.cursor({"github": odd(), "files": odd()})
    home.claude({"github": odd()})
    write(home.project / ".cursor" / "mcp.json", {"mcpServers": {"github": odd("late")}})
    return home


@pytest.mark.parametrize(
    ("targets", "names"),
    [
        ([], ["cursor:github", "claude-code:github", "{user}:github", "cursor:files"]),
        (["cursor:"], ["cursor:github", "{user}:github", "cursor:files"]),
        (["claude-code"], ["claude-code:github"]),
        (["cursor:github", "cursor:github"], ["cursor:github"]),
        (["{user}"], ["{user}:github", "cursor:files"]),
        (["{user}:github", "claude-code:github"], ["{user}:github", "claude-code:github"]),
    ],
)
def test_targets_select_servers(servers: Home, targets: list[str], names: list[str]) -> None:
    user = servers.path / ".cursor" / "mcp.json"
    found = selected([each.format(user=user) for each in targets])
    assert [each.target for each in found.servers] == [each.format(user=user) for each in names]


def test_file_of_no_client_is_a_target(servers: Home) -> None:
    path = write(servers.project / "other.json", {"mcpServers": {"one": odd(), "two": odd()}})
    assert [each.target for each in selected([str(path)]).servers] == [f"{path}:one", f"{path}:two"]
    assert [each.target for each in selected([f"{path}:two"]).servers] == [f"{path}:two"]


def test_a_broken_file_of_a_client_does_not_hide_other_targets(servers: Home) -> None:
    broken = write(servers.project / ".cursor" / "mcp.json", "{")
    found = selected([str(broken), "claude-code:github"])
    assert [each.target for each in found.servers] == ["claude-code:github"]
    assert [(each.client, each.path) for each in found.problems] == [("cursor", broken)]
    with pytest.raises(DeskUserError):
        selected([f"{broken}:github"])


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("cursor:gitub", "Did you mean cursor:github"),
        ("cursr:github", "Did you mean cursor:github"),
        ("gitub", "Did you mean cursor:github or claude-code:github?"),
        ("zed:", "No configuration of zed has a server"),
        ("https://example.com/mcp", "mcpdesk check TARGET"),
        (".cursor/mcp.json:none", "has no server 'none'"),
    ],
)
def test_wrong_targets_end_with_2_and_advice(
    servers: Home, target: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DeskUserError):
        selected([target])
    assert run(["doctor", target, "--json"]) == 2
    out, err = capfd.readouterr()
    assert words in err and json.loads(out)["error"]["code"] == 2
