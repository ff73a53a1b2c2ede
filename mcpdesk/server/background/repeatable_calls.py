"""Stored calls (caller, tool and arguments), so that another process can run them again.

Arguments are stored without masks, even if they contain secrets. Headers and earlier answers of the client
are not stored; a call that runs again asks again.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from mcpdesk.auth.principal import Principal
from mcpdesk.protocol.client_questions import Terms
from mcpdesk.protocol.outlet import Outlet
from mcpdesk.protocol.revisions import BY_NAME
from mcpdesk.server.calls.running_call import Call

MAX_BYTES = 256 << 10
"""Maximum size in bytes of a stored call. A larger call is not run again."""
RESTARTED = "started again: the machine that ran it stopped"


class RepeatableCall(Struct, frozen=True, omit_defaults=True):
    """Tool call that may run again."""

    params: dict[str, Any]
    revision: str
    capabilities: dict[str, Any]
    client: str
    log_level: int | None
    transport: str
    principal: Principal

    def call(self, outlet: Outlet) -> Call:
        """Return the call. It has no original request."""
        terms = Terms(BY_NAME[self.revision], self.capabilities, self.client, self.log_level)
        call = Call("again", "tools/call", self.params, terms, outlet, self.transport, self.client)
        call.principal = self.principal
        return call


def encode_call(call: Call, params: dict[str, Any]) -> bytes:
    """Encode a call with these parameters. Return empty bytes if the call is too large to run again."""
    terms = call.terms
    repeatable = RepeatableCall(
        params,
        terms.revision.name,
        terms.capabilities,
        terms.client,
        terms.log_level,
        call.transport,
        call.principal,
    )
    encoded = msgspec.msgpack.encode(repeatable)
    return encoded if len(encoded) <= MAX_BYTES else b""


def decode_call(request: bytes) -> RepeatableCall | None:
    """Decode a stored call. Return None if another version of the program wrote the call."""
    try:
        repeatable = msgspec.msgpack.decode(request, type=RepeatableCall)
    except msgspec.MsgspecError:
        return None
    return repeatable if repeatable.revision in BY_NAME else None
