"""The usual `tools/call`, read from its bytes at once: a third of what decoding it whole costs.

What is read here is what decoding it would give; whatever is spelt or nested in another way is left to that.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, MsgspecError, Raw, Struct, field, json

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
        return _decode(frame)
    except (MsgspecError, ValueError, RecursionError):
        return None
