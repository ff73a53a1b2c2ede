"""The main loop of an author: a tool fails, its line is opened in the editor, fixed, and called again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.folders import write
from tests.support.terminal import Desk

FILES = {
    "mcp.json": '{"name": "shop"}',
    "tools/shop.py": '''
        import logging

        from mcpdesk import Context

        PRICES = {"coffee": 3}


        async def price(ctx: Context, item: str = "tea") -> str:
            """The price of an item."""
            await ctx.info(f"looking for {item}")
            print("the prices are", list(PRICES))
            logging.getLogger("shop").warning("not counted")
            return str(PRICES[item])
        ''',
}
READ_ONLY = {
    "mcp.json": '{"name": "shop"}',
    "tools/shop.py": '''
        from mcpdesk import tool


        @tool(read_only=True)
        async def price(item: str = "tea") -> str:
            """The price of an item."""
            return f"{item} is 2"
        ''',
    "tools/order.py": '''
        async def order(item: str = "tea") -> str:
            """Order an item."""
            return "ordered"
        ''',
}
EDITOR = """#!/bin/sh
stty -a > "$(dirname "$0")/terminal"
echo "$@" > "$(dirname "$0")/opened"
"""


@pytest.mark.slow
def test_a_failure_leads_to_its_line_and_the_mended_code_is_called_again(tmp_path: Path) -> None:
    folder = write(tmp_path / "shop", FILES)
    tools, opened = folder / "tools" / "shop.py", tmp_path / "opened"
    editor = tmp_path / "vim"
    editor.write_text(EDITOR)
    editor.chmod(0o755)
    lines = tools.read_text().splitlines()
    number = next(at for at, line in enumerate(lines, 1) if "return" in line)
    environ = {"EDITOR": str(editor), "MCPDESK_STATE_DIR": str(tmp_path / "state")}
    with Desk([str(folder), "--http", "0"], columns=110, rows=50, environ=environ) as desk:
        desk.see("The price of an item")
        desk.press("\x12")
        shown = desk.see("log of this call")
        assert f"tools/shop.py:{number} · g c opens it" in shown
        desk.see("return str\\(PRICES")
        for said in ("info looking for tea", "info the prices are ['coffee']", "warning not counted"):
            assert said in desk.text
        desk.press("gc")
        desk.wait(opened.exists, "the editor")
        assert opened.read_text().split() == [f"+{number}", str(tools)]
        # A Ctrl+S while the screen leaves would stop what it still writes, and with it the desk.
        assert " -ixon" in (tmp_path / "terminal").read_text()
        opened.unlink()
        desk.press("2")
        desk.see("status")
        desk.press("\r")
        desk.see(f"tools/shop.py:{number} · g c opens it")
        desk.press("gc")
        desk.wait(opened.exists, "the editor")
        assert opened.read_text().split() == [f"+{number}", str(tools)]
        desk.press("1")
        tools.write_text(tools.read_text().replace('{"coffee": 3}', '{"coffee": 3, "tea": 2}'))
        desk.see("1 changed: price")
        desk.press("r")
        desk.see("changed since the call before")
        desk.see(r"\+2\b")
        desk.press("r")
        desk.see("= the same as before")


@pytest.mark.slow
def test_the_recording_is_made_again_at_every_save(tmp_path: Path) -> None:
    folder = write(tmp_path / "shop", READ_ONLY)
    price = folder / "tools" / "shop.py"
    environ = {"MCPDESK_STATE_DIR": str(tmp_path / "state")}
    with Desk([str(folder), "--http", "0"], columns=110, rows=50, environ=environ) as desk:
        desk.see("order")
        desk.press("\x12")
        desk.see("✓ ok")
        desk.press("j")
        desk.see("The price of an item")
        desk.press("\x12")
        desk.see("tea is 2")
        desk.press("vd")
        desk.see("2 recorded calls|1 recorded call")
        desk.press("r")
        desk.see("1 same")
        desk.see("✓ same +price")
        assert not re.search("✓ same +order", desk.text)
        desk.press("f")
        desk.see("at every save: on")
        price.write_text(price.read_text().replace("is 2", "is 3"))
        desk.see("≠ different +price")
        desk.see(r"\+tea is 3")
        desk.press("\x1b")
        desk.wait(
            lambda: "at every save" not in desk.text, "the workbench"
        )  # the notice appears only while that pane is hidden
        price.write_text(price.read_text().replace('item: str = "tea"', "item: str, shop: str"))
        desk.see("recording of shop: 1 fails now, breaking change · v d shows it")
        desk.press("5")
        desk.see("shop breaks clients: price")
        desk.press("1")
        desk.press("vd")
        desk.see(r'breaking +price: "shop" is new and required +tools/\w+.py:\d')
        desk.see("✗ fails now +price")
        desk.press("\x1b")
        desk.see("tools/call price repla")


SLOW = """
    import asyncio


    async def _fetch() -> None:
        await asyncio.sleep(600)


    async def slow() -> str:
        \"\"\"Take long.\"\"\"
        await _fetch()
        return "never"
    """


@pytest.mark.slow
def test_a_running_call_shows_the_line_it_awaits(tmp_path: Path) -> None:
    folder = write(tmp_path / "shop", {"mcp.json": '{"name": "shop"}', "tools/slow.py": SLOW})
    environ = {"MCPDESK_STATE_DIR": str(tmp_path / "state")}
    with Desk([str(folder), "--http", "0"], columns=110, rows=40, environ=environ) as desk:
        desk.see("Take long")
        desk.press("\x12")
        desk.see(r"at tools/slow.py:\d+ · await asyncio.sleep\(600\)")
        desk.see("ctrl\\+x cancel")
        desk.press("2")
        desk.see("tools/call slow")
        desk.press("\r")
        desk.see(r"at tools/slow.py:\d+ · await asyncio.sleep\(600\)")
        desk.press("1")
        desk.press("\x18")
        desk.see("cancelled")
