"""Progress made from what is known already is what encoding it whole gives."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from mcpdesk.errors import LocalProtocolError
from mcpdesk.protocol import codec
from mcpdesk.server.progress import Progress

TOKENS: list[Any] = ["t", "", '%b %d "progress":0 é\n', 0, 2**53]
TOTALS: list[Any] = [None, 3, 3, 3.0, 0.1 + 0.2, None, float("inf"), float("nan"), 7]
AMOUNTS: list[Any] = [0, 0.5, 1, 1e300, True, 2**63 - 1]


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("has_messages", [False, True])
def test_every_message_is_as_if_it_were_encoded_whole(token: Any, has_messages: bool) -> None:
    progress = Progress(token, has_messages)
    for total, amount, message, tag in product(TOTALS, AMOUNTS, ("", "é"), (None, {"a": 1})):
        params: dict[str, Any] = {"progressToken": token, "progress": amount}
        if total in (3, 7, 0.1 + 0.2):
            params["total"] = total
        if message and has_messages:
            params["message"] = message
        if tag is not None:
            params["_meta"] = tag
        whole = codec.encode({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        assert progress.frame(amount, total, message, tag) == whole
        assert progress.sent is amount


@pytest.mark.parametrize("amount", [2**70, object()])
def test_what_is_no_number_of_json_is_refused_as_ever(amount: Any) -> None:
    progress = Progress("t", True)
    for message in ("", "m"):
        with pytest.raises(LocalProtocolError):
            progress.frame(amount, None, message)
    with pytest.raises(LocalProtocolError):
        progress.frame(1, 2**70)
    assert progress.frame(1, None).endswith(b'"progress":1}}')
