"""Putting a freshly read folder in place, and what is said about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcpdesk.hosting.folder.loader import Loaded, load_folder
from mcpdesk.hosting.folder.reload import Changes, apply
from mcpdesk.server.registry import Unavailable
from mcpdesk.server.server import Server
from mcpdesk.server.tool import Tool
from tests.support.folders import write

Save = Callable[[dict[str, str]], Changes]


async def _nothing(_arguments: object, _context: object) -> None: ...


BASH = Tool("Bash", _nothing, {"type": "object"}, source="built-in")


@pytest.fixture
def server() -> Server:
    return Server("test")


@pytest.fixture
def save(tmp_path: Path, server: Server) -> Iterator[Save]:
    """Writes files and applies the folder to the server."""
    loads: list[Loaded] = []

    def write_and_apply(files: dict[str, str]) -> Changes:
        write(tmp_path, files)
        loads.append(load_folder(tmp_path, loads[-1] if loads else None))
        return apply(loads[-1], server, [BASH], [Unavailable("Nope", "unknown", "mcp.json")])

    yield write_and_apply
    loads[-1].close()


def test_first_load_adds_everything(save: Save, server: Server) -> None:
    changes = save(
        {
            "mcp.json": '{"title": "T", "version": "3", "websiteUrl": "https://example.org"}',
            "tools/a.py": "async def a(): ...",
            "resources/r.md": "x",
            "prompts/p.md": "x",
            "context.py": "async def create_context(request): ...",
        }
    )
    assert changes.added == ("a", "Bash", "resource://r", "p")
    assert changes.broken == ("Nope",)
    assert (server.title, server.version, server.website_url) == ("T", "3", "https://example.org")
    assert server.create_context is not None
    assert server.folder is not None


def test_saving_without_a_change_changes_nothing(save: Save, server: Server) -> None:
    save({"tools/a.py": "async def a(): ..."})
    version = server.tools.version
    assert not save({"tools/a.py": "async def a(): ...  # done"})
    assert server.tools.version == version


def test_changes_are_told_apart(save: Save, tmp_path: Path) -> None:
    save({"tools/a.py": "async def a(): ...", "tools/b.py": "async def b(): ...", "resources/r.md": "x"})
    (tmp_path / "tools/b.py").unlink()
    changes = save(
        {"tools/a.py": "async def a(): return 1", "tools/c.py": "async def c(): ...", "resources/r.md": "y"}
    )
    assert changes.added == ("c",)
    assert changes.changed == ("a", "resource://r")
    assert changes.removed == ("b",)
    assert changes.updated == ("resource://r",)
    assert changes.summary() == "1 added: c; 2 changed: a, resource://r; 1 removed: b"


def test_broken_file_is_told_once_and_its_repair_as_well(save: Save, server: Server) -> None:
    save({"tools/a.py": "async def a(): ..."})
    assert save({"tools/a.py": "async def a(:"}) == Changes(broken=("a",))
    assert [each.serving for each in server.tools.unavailable] == [True, False]
    assert server.tools.get("a") is not None
    assert not save({})
    assert save({"tools/a.py": "async def a(): ..."}).summary() == "1 repaired: a"


def test_missing_precondition_is_not_called_broken(save: Save, server: Server) -> None:
    text = "from mcpdesk import tool\n@tool(requires_env='NOWHERE_SET')\nasync def a(): ..."
    assert save({"tools/a.py": text}).broken == ("Nope",)
    assert save({"tools/a.py": text + "\n("}).broken == ("a",)
    assert save({"tools/a.py": text}).broken == ()
    assert [each.name for each in server.tools.unavailable] == ["a", "Nope"]


def test_running_call_keeps_its_handler(save: Save, server: Server) -> None:
    save({"tools/a.py": "async def a(): return 1"})
    running = server.tools.get("a")
    save({"tools/a.py": "async def a(): return 2"})
    assert running is not None
    assert running is not server.tools.get("a")


def test_tool_of_the_folder_wins_over_a_built_in_one(save: Save, server: Server) -> None:
    save({"tools/a.py": "from mcpdesk import tool\n@tool(name='Bash')\nasync def bash(): ..."})
    found = server.tools.get("Bash")
    assert found is not None
    assert found.source == "tools/a.py:3"
    assert "serves instead of the built-in one" in server.tools.unavailable[1].reason


def test_long_summaries_are_shortened() -> None:
    assert Changes(added=("a", "b", "c", "d", "e")).summary() == "5 added: a, b, c and 2 more"
    assert Changes().summary() == ""
