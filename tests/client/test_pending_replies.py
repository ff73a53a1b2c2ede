"""Replies on a shared channel: ids of answered requests are remembered up to a limit."""

from __future__ import annotations

import pytest

from mcpdesk.client.answers import pending_replies
from mcpdesk.client.answers.pending_replies import PendingReplies
from mcpdesk.client.transport import Incoming
from mcpdesk.protocol.reading.remark import RemarkKind


async def test_a_second_answer_is_told_from_a_late_one_for_the_latest_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pending_replies, "MOST_ANSWERED", 2)
    replies, came = PendingReplies(), list[Incoming]()

    def answer(identifier: int) -> None:
        assert replies.deliver(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % identifier, came.append)

    for identifier in (1, 2, 3):
        with replies.expecting(identifier) as reply:
            answer(identifier)
            await reply
    assert came == []
    for identifier in (1, 2, 3):
        answer(identifier)
    assert [[str(remark.kind) for remark in each.remarks] for each in came] == [
        [],
        [RemarkKind.REPEATED_ANSWER],
        [RemarkKind.REPEATED_ANSWER],
    ]
