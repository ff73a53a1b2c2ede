"""A server's registries as a catalogue."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from mcpdesk.link.local.local_catalogue import ServerCatalogue
from mcpdesk.link.values import CatalogueItem, ItemKind
from mcpdesk.server.asks.approval_policies import DESK_ORIGIN, Policy
from mcpdesk.server.offer.registry import Unavailable
from mcpdesk.server.state.server_state import ServerState
from tests.support.desk import running_desk
from tests.support.folders import save, write
from tests.support.patience import until
from tests.support.policies import next_policy
from tests.support.served import make_server


def test_items_stand_in_serving_order_with_the_broken_ones_last() -> None:
    server = make_server()
    server.prompts.replace(list(server.prompts), [Unavailable("other", "no body", "prompts/other.md:1")])
    catalogue = ServerCatalogue(server).catalogue()
    kinds = [item.kind for item in catalogue.items]
    assert kinds == sorted(kinds, key=list(ItemKind).index)
    assert catalogue.items[-1].problem == "no body"
    assert catalogue.items[0].definition["inputSchema"]["required"] == ["text"]


def test_a_stale_item_still_serves_and_says_so() -> None:
    server = make_server()
    stale = Unavailable("echo", "SyntaxError", "tools/a.py:1", is_serving=True)
    server.tools.replace(list(server.tools), [stale])
    items = [item for item in ServerCatalogue(server).catalogue().items if item.name == "echo"]
    assert [(item.stale, item.problem) for item in items] == [(True, "SyntaxError")]


def test_the_first_load_marks_nothing_as_changed() -> None:
    server = make_server()
    shelf = ServerCatalogue(server)
    assert not any(item.changed for item in shelf.catalogue().items)
    server.tools.replace(list(server.tools)[:1])
    assert shelf.catalogue() is shelf.catalogue()


async def test_a_syntax_error_in_one_file_marks_no_other_tool_as_changed(tmp_path: Path) -> None:
    tool = 'async def {0}(x: str = "a") -> str:\n    """Tool {0}."""\n    return x\n'
    folder = write(tmp_path, {f"tools/{name}.py": tool.format(name) for name in "abc"})
    async with running_desk(folder, watch=True, withholds_invalid=True) as link:
        server = link.view().servers[0].name

        def tools() -> list[CatalogueItem]:
            return [one for one in link.catalogue(server).items if one.kind is ItemKind.TOOL]

        save(folder / "tools/b.py", "async def b(:\n")
        await until(lambda: any(one.problem for one in tools()))
        assert [one.name for one in tools() if one.changed] == []
        save(folder / "tools/b.py", tool.format("b").replace("Tool", "Better tool"))
        await until(lambda: not any(one.problem for one in tools()))
        assert [one.name for one in tools() if one.changed] == ["b"]


async def test_policies_are_told_with_their_origin_and_make_another_catalogue(tmp_path: Path) -> None:
    server = make_server()
    server.hosted = home = ServerState(tmp_path, tmp_path / "state")
    shelf = ServerCatalogue(server)
    before = shelf.catalogue()
    home.approvals.configure(("mcp.json", {"echo": Policy.ASK}))
    await next_policy(home.approvals, "boom")
    after = shelf.catalogue()
    assert after.version > before.version == shelf.version - 2
    told = {item.name: (item.policy, item.policy_origin) for item in after.items}
    assert told["echo"] == (Policy.ASK, "mcp.json") and told["boom"] == (Policy.ASK, DESK_ORIGIN)
    assert told["steps"] == told["resource://note"] == (Policy.ALLOW, "")
    await home.close()


async def test_a_configuration_that_nothing_would_answer_is_refused_with_what_helps(tmp_path: Path) -> None:
    auth = '{"requires_jwt": true, "jwt": {"algorithms": ["HS256"], "secret_env": "NONE", "audience": "a"}}'
    folder = write(tmp_path, {"mcp.json": f'{{"name": "safe", "auth": {auth}}}'})
    async with running_desk(folder) as link:
        assert [(one.name, one.folder) for one in link.view().servers] == [("safe", str(folder))]
        refused = link.client_config("safe", "cursor").exception(0)
        assert isinstance(refused, ValueError) and "requires a token" in str(refused)
        assert "--token-env VAR" in str(refused)
        assert "$MCPDESK_TOKEN" in link.client_config("safe", "curl").result(0)


def test_a_guarded_tool_says_which_scopes_its_token_needs() -> None:
    server = make_server()
    tools = [replace(tool, requires_jwt=tool.name == "echo", scopes=("a",) * (tool.name == "echo"))
        for tool in server.tools]  # fmt: skip
    server.tools.replace(tools)
    told = {item.name: (item.needs_token, item.scopes) for item in ServerCatalogue(server).catalogue().items}
    assert told.pop("echo") == (True, ("a",))
    assert set(told.values()) == {(False, ())}
