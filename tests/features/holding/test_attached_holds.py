"""Messages that a screen attached to a core in another process holds and changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mcpdesk.features.holding.held_message import HoldView, Release, SetHold, Verdict
from mcpdesk.recorder.index.phase_spans import PhaseKind, phase_spans
from tests.link.test_remote import attach as attach
from tests.link.test_remote import call, methods, text
from tests.link.test_remote import folder as folder
from tests.link.test_remote import serve as serve
from tests.support.patience import result_of, wait_until

if TYPE_CHECKING:
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
