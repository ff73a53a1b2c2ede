"""Notices at a save about changes for clients, compared with the offer before."""

from __future__ import annotations

from pathlib import Path

from mcpdesk.hosting.host import Host
from mcpdesk.testing.connected_server import connected, isolated_host
from tests.support.folders import write

TOOL = """
    async def price(item: str{more}) -> str:
        \"""{told}\"""
        return "3"
    """


async def save(folder: Path, host: Host, more: str = "", told: str = "The price.") -> str:
    """Save the tool, read the folder again, and return the newest notice."""
    write(folder, {"tools/price.py": TOOL.format(more=more, told=told)})
    await host.folders["shop"].reload()
    return host.journal.notices()[-1].text


async def test_a_save_is_judged_by_the_offer_before(tmp_path: Path) -> None:
    files = {"mcp.json": '{"name": "shop"}', "tools/price.py": TOOL.format(more="", told="The price.")}
    folder = write(tmp_path / "shop", files)
    host = isolated_host(folder, tmp_path / "state")
    async with connected(host):
        broken = await save(folder, host, ", shop: str")
        assert broken.startswith(
            'shop breaks clients: price: "shop" is new and required (tools/price.py:1) · reloaded in '
        )
        reworded = await save(folder, host, ", shop: str", "Another price.")
        assert "breaks" not in reworded and reworded.endswith(" · wording: price")
        assert (await save(folder, host, ", shop: str = 'here'", "Another price.")).endswith(
            " · compatible: price"
        )
        write(folder, {"tools/stock.py": TOOL.format(more="", told="The stock.").replace("price(", "stock(")})
        await host.folders["shop"].reload()
        assert host.journal.notices()[-1].text.endswith("1 added: stock"), "a new item breaks nothing"
        await save(folder, host)
        write(folder, {"tools/stock.py": TOOL.format(more="", told="Stock.").replace("price(", "stock(")})
        broken = await save(folder, host, ", shop: str")
        assert "required (tools/price.py:1) · wording: stock · reloaded in " in broken
        assert host.journal.notices()[-1].screen == "workbench/save/shop"
        broken = await save(folder, host, "=")
        assert broken.startswith("shop: tools/price.py:1: SyntaxError: ")
        assert "; the previous version is served · reloaded in " in broken and broken.endswith(
            "1 broken: price"
        )
