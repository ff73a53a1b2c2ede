"""Messages that a screen attached to a core in another process holds, changes and mocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mcpdesk.features.holding.held_message import HoldView, Release, SetHold, Verdict
from mcpdesk.recorder.index.phase_spans import PhaseKind, phase_spans
from mcpdesk.tui.actions import FEATURE_ACTIONS
from mcpdesk.tui.widgets.menu import Menu
from tests.link.test_remote import attach as attach
from tests.link.test_remote import call, methods, text
from tests.link.test_remote import folder as folder
from tests.link.test_remote import serve as serve
from tests.link.test_stopped_core import attached
from tests.support.frame import toasts
from tests.support.patience import result_of, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.link.test_remote import Attach, Start


@pytest.mark.process
def test_an_attached_screen_holds_changes_and_sees_what_was_changed(serve: Start, attach: Attach) -> None:
    serve()
    link = attach()
    with pytest.raises(ValueError, match="unknown field"):
        result_of(link.do(SetHold("nope:add", "both")))
    assert result_of(link.do(SetHold("tool:add", "both")))
    calling = call(link, "add", a=1, b=2)
    wait_until(lambda: link.feature_part(HoldView).messages)
    (one,) = link.feature_part(HoldView).messages
    with pytest.raises(ValueError, match="object"):
        result_of(link.do(Release(one.number, Verdict.CHANGE, "[]")))
    result_of(link.do(Release(one.number, Verdict.CHANGE, one.text.replace('"a": 1', '"a": 40'))))
    wait_until(lambda: [each.is_answer for each in link.feature_part(HoldView).messages] == [True])
    assert result_of(link.do(SetHold("", "both")))
    assert text(result_of(calling.outcome)) == "42"
    wait_until(lambda: len(link.traffic.marks) == 2 and methods(link)[-1] == ("desk", "tools/call"))
    asked, answered = link.traffic.marks_of(list(link.traffic.exchanges)[-1])
    assert (asked.how, '"a":1' in asked.was, '"a":40' in asked.now) == ("changed", True, True)
    assert (answered.how, answered.was) == ("passed on", "")
    spans = phase_spans(link.traffic, list(link.traffic.exchanges)[-1], 0.0)
    assert {PhaseKind.HELD, PhaseKind.HANDLER, PhaseKind.SHAPING} <= {span.kind for span in spans}


@pytest.mark.slow
async def test_a_mock_waits_for_the_core_while_keys_go_on(tmp_path: Path) -> None:
    async with attached(tmp_path / "far", "a", "b") as core:
        app, until_shown = core.it.app, core.it.until
        number = next(one.number for one in core.link.traffic.exchanges if one.method == "tools/call")
        core.stop()
        await core.press("2")
        core.traffic_pane.open_exchange(number)
        FEATURE_ACTIONS["traffic.mock"].run(core.traffic_pane)
        await core.press("p", "p", "1", "2")
        core.resume()
        await until_shown(lambda: isinstance(app.screen, Menu))
        core.stop()
        await core.press("y")
        await core.press("1", "3", "2")
        assert not core.link.feature_part(HoldView).canned
        core.resume()
        await until_shown(lambda: any("answered as in the capture" in each for each in toasts(app)))
        await until_shown(lambda: len(core.link.feature_part(HoldView).canned) == 1)
