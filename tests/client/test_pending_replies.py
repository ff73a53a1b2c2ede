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
    monkeypatch.setattr(pending_replies, "MAX_ANSWERED_REQUESTS", 2)
    replies, came = PendingReplies(), list[Incoming]()

    def answer(identifier: int) -> None:
        assert replies.deliver(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % identifier, came.append)

    for identifier in (1, 2, 3):
        with replies.pending_reply(identifier) as reply:
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


@pytest.mark.parametrize("method", [b"null", b'"tools/call"', b"5"])
async def test_a_response_with_a_method_answers_its_request(method: bytes) -> None:
    replies, came = PendingReplies(), list[Incoming]()
    with replies.pending_reply(1) as reply:
        replies.deliver(b'{"jsonrpc":"2.0","id":1,"method":%b,"result":{"a":1}}' % method, came.append)
        assert reply.done()
        answer = await reply
    assert answer.message == {"jsonrpc": "2.0", "id": 1, "result": {"a": 1}} and came == []
    assert [str(each.kind) for each in answer.remarks] == [RemarkKind.JSONRPC]


async def test_a_request_with_an_empty_result_stays_a_request() -> None:
    replies, came = PendingReplies(), list[Incoming]()
    with replies.pending_reply(1) as reply:
        replies.deliver(b'{"jsonrpc":"2.0","id":1,"method":"ping","result":null}', came.append)
        assert not reply.done() and [each.message["method"] for each in came if each.message] == ["ping"]
