"""Output, log lines and exceptions of a call stay with it: in captures, in exports, on the screen."""

from __future__ import annotations

import asyncio
from pathlib import Path

import orjson

from mcpdesk.features.exports.export_command import export_command
from mcpdesk.hosting.journal import logging_to
from mcpdesk.link.capture_link import CaptureLink
from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.index.exchange import Status
from mcpdesk.server.calls.running_call import RUNNING_CALL
from mcpdesk.tui.traffic.exchange_menus import call_log, copy_menu
from tests.support.desk import running_desk
from tests.support.folders import write
from tests.support.patience import until

FILES = {
    "mcp.json": '{"name": "shop"}',
    "tools/shop.py": '''
        import logging

        PRICES = {"coffee": 3}


        async def price(item: str = "tea") -> str:
            """The price of an item."""
            logging.getLogger("shop").info("the password: hunter2 is not told")
            logging.getLogger("shop").warning("not counted")
            return str(PRICES[item])
        ''',
}
BOTH = ({"item": "tea"}, {"item": "coffee"})
SAID = (
    "Log of the call:",
    "KeyError: 'tea'",
    "error  tools/shop.py:10",
    "return str(PRICES",
    "not counted",
)


async def captured(tmp_path: Path) -> Path:
    """The capture of a call that failed, and of one that did not."""
    folder = write(tmp_path / "shop", FILES)
    async with running_desk(folder, state_dir=str(tmp_path / "state")) as desk:
        with logging_to(desk.host.journal, lambda: [folder], RUNNING_CALL.get):
            for arguments in BOTH:
                call = desk.request("shop", "tools/call", {"name": "price", "arguments": arguments})
                await asyncio.wrap_future(call.outcome)
        desk.traffic.catch_up()
        failed = next(each for each in desk.traffic.exchanges if each.status is Status.TOOL_ERROR)
        make, name = next(each.value for each in copy_menu(desk, failed.number).choices if each.key == "r")
        copied = make()
        assert name == "Markdown" and [each for each in SAID if each not in copied] == []
        assert copied.startswith("## ") and "hunter2" not in copied
    (path,) = (tmp_path / "state" / "captures").glob("*.jsonl")
    return path


async def test_an_exported_report_has_the_traceback_and_the_log_of_a_call(tmp_path: Path) -> None:
    path = await captured(tmp_path)
    found = {}
    for ending in ("md", "jsonl", "capture"):
        out = tmp_path / f"out.{ending}"
        export_command.main([str(path), "--as", ending, "--output", str(out)], standalone_mode=False)
        found[ending] = out.read_text()
        assert "hunter2" not in found[ending]
    assert [each for each in SAID if each not in found["md"]] == []
    assert found["md"].count("not counted") == 2  # the second call said so, too
    logged = [each["log"] for each in map(orjson.loads, found["jsonl"].splitlines()) if "log" in each]
    assert [len(lines) for lines in logged] == [3, 2] and logged[0][-1]["where"] == "tools/shop.py:10"
    assert "KeyError" in found["capture"]  # one that is handed on has it as well


async def test_a_capture_that_is_opened_shows_what_a_call_logged(tmp_path: Path) -> None:
    link = CaptureLink(Archive(await captured(tmp_path)))
    link.view()
    await until(lambda: len(link.logs()) == 5)
    link.traffic.catch_up()
    failed = next(each for each in link.traffic.exchanges if each.status is Status.TOOL_ERROR)
    assert [line.level for line in call_log(link, failed)] == ["info", "warning", "error"]
    assert link.logs(3) == link.logs()[4:] and link.logs()[0].server == "shop"
    link.close()
