"""Return values of renderers become messages, or an error that names the invalid part."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import content
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.prompts import Prompt, messages_of
from tests.support.served import Peer

HI = {"role": "user", "content": {"type": "text", "text": "hi"}}
PICTURE = {"role": "user", "content": content.image(b"x")}


@pytest.mark.parametrize(
    ("rendered", "messages"),
    [
        ("hi", [HI]),
        (HI, [HI]),
        (["hi", {"role": "assistant", "content": "hi"}], [HI, HI | {"role": "assistant"}]),
        ((HI, HI), [HI, HI]),
        ([PICTURE], [PICTURE]),
        ([], []),
    ],
)
def test_texts_and_messages_become_messages(rendered: Any, messages: list[Any]) -> None:
    assert messages_of("p", rendered) == messages


@pytest.mark.parametrize(
    ("rendered", "complaint"),
    [
        (None, "not NoneType"),
        (5, "not int"),
        (["hi", 5], "message 2 needs a role: user or assistant"),
        ([{"role": "system", "content": "x"}], "message 1 needs a role"),
        ([{"role": "user"}], "content of message 1 is not a content block"),
        (
            ["a", {"role": "user", "content": {"type": "image", "data": b"x", "mimeType": "image/png"}}],
            "content of message 2: data must be a text",
        ),
        ([{"role": "user", "content": [HI]}], "content of message 1"),
        ([{"role": "user", "content": {"type": "image"}}], "content of message 1"),
    ],
)
def test_what_is_no_message_is_named(rendered: Any, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint) as caught:
        messages_of("p", rendered)
    assert caught.value.code == -32603


async def test_a_client_reads_what_is_wrong_with_a_prompt() -> None:
    async def render(arguments: dict[str, str], context: Context) -> Any:
        return {"text": "hi"}

    peer = Peer()
    peer.server.prompts.replace([Prompt("broken", render)])
    peer.modern(1, "prompts/get", {"name": "broken"})
    error = (await peer.response(1))["error"]
    assert error == {
        "code": -32603,
        "message": "Prompt broken returned an invalid message: message 1 needs a role: user or assistant",
    }
