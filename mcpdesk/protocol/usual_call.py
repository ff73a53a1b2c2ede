"""The usual `tools/call`, read from its bytes at once: a third of what decoding it whole costs.

What is read here is what decoding it would give; whatever is spelt or nested in another way is left to that.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, MsgspecError, Raw, Struct, field, json

from mcpdesk.protocol.codec import has_escaped_colon
from mcpdesk.protocol.jsonrpc import LARGEST_ID

_LARGEST = 2**63 - 1

_Id = Annotated[int, Meta(ge=-LARGEST_ID, le=LARGEST_ID)] | str
_Plain = None | bool | str | float | Annotated[int, Meta(ge=-_LARGEST, le=_LARGEST)]


class Asked(Struct, gc=False, forbid_unknown_fields=True):
    """The params."""

    name: str
    arguments: dict[str, _Plain]
    meta: Raw = field(default=Raw(), name="_meta")
    """As it came, and not looked at; empty when there is none."""


class UsualCall(Struct, gc=False, forbid_unknown_fields=True):
    """One request."""

    jsonrpc: Literal["2.0"]
    id: _Id
    method: Literal["tools/call"]
    params: Asked


_decode = json.Decoder(UsualCall).decode


def read_call(frame: bytes) -> UsualCall | None:
    """The request in a frame; None for anything else, and for what is wrong or uncommon about it."""
    try:
        call = _decode(frame)
    except (MsgspecError, ValueError, RecursionError):
        return None
    params = call.params
    meta = bytes(params.meta)
    colons = frame.count(b":") - meta.count(b":") - (7 if meta else 6) - len(params.arguments)
    # There is one for every key. More are in texts, or a key is given twice.
    return call if not colons or (colons == _in_texts(call) and not has_escaped_colon(frame)) else None


def _in_texts(call: UsualCall) -> int:
    """How many colons its texts have."""
    arguments = call.params.arguments
    texts = [call.id, call.params.name, *arguments, *arguments.values()]
    return sum([text.count(":") for text in texts if type(text) is str])
