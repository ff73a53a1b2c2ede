"""What is kept of a call so that another replica can run it again: who called what with which arguments.

Arguments are kept as they are, secrets among them. Headers of the request are not kept, nor what its client
answered so far: a repeated call asks again.
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
from mcpdesk.server.dialects.gateway_translation import GatewayDialect

MOST_BYTES = 256 << 10
"""A larger call is not repeated."""
BEGUN_AGAIN = "begun again: the machine that ran it ended"


class RepeatableCall(Struct, frozen=True, omit_defaults=True):
    """A call of a tool that may run again."""

    params: dict[str, Any]
    revision: str
    capabilities: dict[str, Any]
    client: str
    log_level: int | None
    transport: str
    principal: Principal
    is_gateway: bool = False
    """Whether its caller speaks the dialect of the gateway."""

    def call(self, outlet: Outlet) -> Call:
        """The call, without the request it came with."""
        terms = Terms(BY_NAME[self.revision], self.capabilities, self.client, self.log_level)
        call = Call("again", "tools/call", self.params, terms, outlet, self.transport, self.client)
        call.principal = self.principal
        call.dialect = GatewayDialect(None) if self.is_gateway else None
        return call


def packed(call: Call, params: dict[str, Any]) -> bytes:
    """A call with these parameters, to be kept; empty when it is too large to be repeated."""
    terms = call.terms
    found = RepeatableCall(
        params,
        terms.revision.name,
        terms.capabilities,
        terms.client,
        terms.log_level,
        call.transport,
        call.principal,
        call.dialect is not None,
    )
    encoded = msgspec.msgpack.encode(found)
    return encoded if len(encoded) <= MOST_BYTES else b""


def unpacked(request: bytes) -> RepeatableCall | None:
    """A call that was kept; None for one of another version."""
    try:
        found = msgspec.msgpack.decode(request, type=RepeatableCall)
    except msgspec.MsgspecError:
        return None
    return found if found.revision in BY_NAME else None
