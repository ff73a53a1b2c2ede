"""How one peer's usual calls begin: who asks, under which terms, and that there is room for one more.

Whatever is unusual or wrong is left to the conversation, which knows what to say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from mcpdesk.auth.principal import Principal
from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import codec, stateless
from mcpdesk.protocol.handshake import Phase
from mcpdesk.protocol.jsonrpc import Id, JSONObject
from mcpdesk.protocol.terms import Terms
from mcpdesk.server.call import Call, Outlet, progress_token
from mcpdesk.server.direct import METHOD, DirectCalls, Usual
from mcpdesk.server.reply import Reply
from mcpdesk.server.tool import CLAIMS

if TYPE_CHECKING:
    from mcpdesk.protocol.usual_call import UsualCall
    from mcpdesk.server.conversation import Conversation

Answering = Coroutine[Any, Any, Reply]

_MARK = f'"{METHOD}"'.encode()
_WITHIN = 96
"""Bytes of a frame in which its method is looked for."""


class DirectWay:
    """What is remembered of one conversation's usual calls. It is handed in, so neither keeps the other."""

    def __init__(self, calls: DirectCalls) -> None:
        self._calls = calls
        self._suited: Terms | None = None
        """The terms that were last found to suit a direct call."""
        self._read: Callable[[bytes], UsualCall | None] | None = None
        self._bytes = Raw()
        """Metadata of the latest call that came as a frame."""
        self._meta: JSONObject | None = None
        """What they say."""
        self._terms: Terms | None = None
        """The terms if they stand alone; None: those of the session."""
        self._begun: list[Call] = []
        """Calls that came together and are not settled."""
        self._came = 0.0
        """When they came."""

    def begins(self, principal: Principal) -> bool:
        """Whether `answer_frame` may be asked, for frames that came just now."""
        self._came = time.monotonic()
        # Who speaks on a pipe may have been named long ago.
        return principal.expires is None and self._calls.may_begin(principal)

    def answer_frame(
        self, conversation: Conversation, frame: bytes, outlet: Outlet, principal: Principal
    ) -> Answering | None:
        """What answers the call in a frame of a pipe, to be run before `settle`.

        None: nothing was done, it goes the long way.
        """
        if frame.find(_MARK, 0, _WITHIN) < 0:
            return None
        read = self._read
        if read is None:
            from mcpdesk.protocol.usual_call import read_call  # who only lists tools does not wait for it

            self._read = read = read_call
        asked = read(frame)
        if asked is None:
            return None
        given = asked.params
        usual = self._calls.usuals.get(given.name) or self._calls.known(given.name)
        if usual is None:
            return None
        params: JSONObject = {"name": given.name, "arguments": given.arguments}
        data, meta, terms = given.meta, self._meta, self._terms
        if data != self._bytes:
            meta, terms = _read_meta(data), None
        if meta is not None:
            params["_meta"] = meta
        elif data:
            return None
        if terms is None:
            terms = conversation.session.terms
            # Those of a session that were found to suit are looked at no more.
            if meta is not None or terms is not self._suited or terms is not conversation.announced:
                terms = self._admitted(conversation, params, None)
            if terms is None:
                return None
            if meta is None or "progressToken" not in meta:
                # Clients repeat their metadata, but for what names the call.
                self._bytes, self._meta = data, meta
                self._terms = terms if terms.revision.is_stateless else None
        elif terms is not conversation.announced:
            conversation.announce(terms)
        call = self._entered(
            conversation, asked.id, params, terms, usual, outlet, None, principal, self._came
        )
        if call is None:
            return None
        self._begun.append(call)
        return self._calls.run(call, usual, conversation)

    def settle(self, conversation: Conversation) -> None:
        """Count the calls begun by `answer_frame`, and watch over those that wait for something."""
        begun = self._begun
        if not begun:
            return
        self._begun, ended = [], len(begun)
        if conversation.in_flight:
            deadlines = conversation.dispatcher.services.deadlines
            for call in begun:
                if not call.is_over:
                    call.is_settled = True
                    deadlines.watch(call, call.limit_s, call.deadline)
                    ended -= 1
        conversation.count(len(begun), ended, time.monotonic() - self._came)

    def answer(
        self,
        conversation: Conversation,
        message: JSONObject,
        outlet: Outlet,
        headers: Mapping[str, str] | None,
        principal: Principal,
    ) -> Answering | None:
        """What answers a decoded call; None: nothing was done."""
        usual = self._calls.usual(message)
        if usual is None or not self._calls.admits(principal):
            return None
        if headers is None and principal.expires is not None:
            return None
        params: JSONObject = message["params"]
        terms = self._admitted(conversation, params, headers)
        if terms is None:
            return None
        started = time.monotonic()
        call = self._entered(
            conversation, message["id"], params, terms, usual, outlet, headers, principal, started
        )
        if call is None:
            return None
        call.is_settled = True
        conversation.calls += 1
        conversation.dispatcher.services.deadlines.watch(call, call.limit_s)
        return self._calls.run(call, usual, conversation)

    def _entered(
        self,
        conversation: Conversation,
        identifier: Id,
        params: JSONObject,
        terms: Terms,
        usual: Usual,
        outlet: Outlet,
        headers: Mapping[str, str] | None,
        principal: Principal,
        started: float,
    ) -> Call | None:
        """The call, in flight from here on; None when it is wrong or one too many."""
        in_flight, server = conversation.in_flight, conversation.dispatcher.server
        arguments = params["arguments"]
        if identifier in in_flight or len(in_flight) >= server.limits.in_flight:
            return None
        # Claims a client brings are dropped.
        if CLAIMS in arguments or not usual.accepts(arguments):
            return None
        transport, peer = conversation.transport, conversation.peer
        call = Call(identifier, METHOD, params, terms, outlet, transport, peer, headers, started)
        meta = params.get("_meta")
        if type(meta) is dict and "progressToken" in meta:
            call.progress_token = progress_token(params)
        call.opening, call.principal = conversation.opening, principal
        call.connection = conversation.connection
        limit_s = usual.tool.timeout_s
        call.limit_s = server.limits.tool_timeout_s if limit_s is None else limit_s
        if conversation.session.phase is Phase.READY and not terms.revision.is_stateless:
            call.requests = conversation.requests
        in_flight[identifier] = call
        return call

    def _admitted(
        self, conversation: Conversation, params: JSONObject, headers: Mapping[str, str] | None
    ) -> Terms | None:
        meta = params.get("_meta")
        if type(meta) is dict and stateless.VERSION_KEY in meta:
            try:
                terms = conversation.admission.admit(METHOD, params, headers)
            except ProtocolError:
                return None
        elif not conversation.session.is_open or (headers is not None and _is_stateless(headers)):
            return None
        else:
            terms = conversation.session.terms
        if terms is not self._suited:
            if not self._calls.suits(terms):
                return None
            self._suited = terms
        if terms is not conversation.announced:
            conversation.announce(terms)
        return terms


def _read_meta(data: Raw) -> JSONObject | None:
    """Metadata; None when there is none, or when it is something else."""
    try:
        meta = codec.decode(memoryview(data)) if data else None
    except ProtocolError:
        return None
    return meta if isinstance(meta, dict) else None


def _is_stateless(headers: Mapping[str, str]) -> bool:
    return stateless.is_stateless(None, headers.get("mcp-protocol-version", ""))
