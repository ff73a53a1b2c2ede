"""A token given to a dialogue: its holder, while it is valid.

The person at the desk gives one to a dialogue within this process, which does not keep it. A client over
stdio has one in its environment.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import NamedTuple

from msgspec import Struct

from mcpdesk.auth.principal import OPEN, TOKEN_VARIABLE, Access, Principal
from mcpdesk.hosting.channel import HostedDialogue
from mcpdesk.hosting.endpoint import HostedEndpoint

EXPIRED = "it has expired"
CHANGED = "what mcp.json asks of tokens has changed"
log = logging.getLogger("mcpdesk.auth")


class TokenView(Struct, frozen=True):
    """The holder of a token, for a front end."""

    name: str
    scopes: frozenset[str]
    """What the token allows, with the scopes those include."""
    expires: float | None = None
    """When it expires, Unix time in seconds."""
    ended: str = ""
    """Why it is no longer valid, in words that follow `it`; empty while it is valid."""


class _Held(NamedTuple):
    """The holder of a token, and the rules under which it was valid."""

    principal: Principal
    access: Access

    @property
    def lacks(self) -> frozenset[str]:
        """Scopes that every request needs and the token lacks."""
        return self.access.scopes - self.principal.scopes


class HeldToken:
    """The token of one dialogue; the server's own rules check it once, when it is given.

    `run` runs a function on the core's loop soon, from any thread.
    """

    def __init__(
        self,
        endpoint: HostedEndpoint,
        dialogue: HostedDialogue,
        run: Callable[[Callable[[], object]], object],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._endpoint = endpoint
        self._dialogue = dialogue
        self._run = run
        self._clock = clock
        self._held: _Held | None = None
        self._checks: set[asyncio.Task[_Held]] = set()

    def view(self) -> TokenView | None:
        """The holder; None without a token. Any thread may ask."""
        held = self._held
        if held is None:
            return None
        who = held.principal
        return TokenView(who.name, who.scopes, who.expires, self._end_of(held))

    def give(self, text: str, needs: Collection[str] = ()) -> Future[tuple[str, ...]]:
        """Check a token and act as its holder from now on; from any thread.

        The future holds those of `needs` the token does not allow; with any, the token is not used. It fails
        with ValueError and the reason for an invalid token. Cancelled in time, nothing changes.
        """
        done: Future[tuple[str, ...]] = Future()

        def begin() -> None:
            task = asyncio.get_running_loop().create_task(self._verified(text))
            self._checks.add(task)
            task.add_done_callback(lambda task: self._checked(task, needs, done))

        self._run(begin)
        return done

    def drop(self) -> None:
        """Forget the token; from any thread."""

        def forget() -> None:
            self._held = None
            self.apply()

        self._run(forget)

    def apply(self) -> None:
        """Give the dialogue the token's principal while it is valid. On the core's loop, before a send."""
        held = self._held
        principal = OPEN if held is None or self._end_of(held) else held.principal
        if self._dialogue.conversation.principal is not principal:
            self._dialogue.identify(principal)

    def close(self) -> None:
        """Cancel checks under way."""
        for task in self._checks:
            task.cancel()

    def _checked(
        self, task: asyncio.Task[_Held], needs: Collection[str], done: Future[tuple[str, ...]]
    ) -> None:
        self._checks.discard(task)
        if task.cancelled():
            done.cancel()
            return
        reason = task.exception()
        if not done.set_running_or_notify_cancel():
            return
        if reason is not None:
            done.set_exception(reason)
            return
        held = task.result()
        lacking = tuple(scope for scope in needs if scope not in held.principal.scopes)
        if not lacking:
            self._held = held
            self.apply()
        done.set_result(lacking)

    async def _verified(self, text: str) -> _Held:
        """Check a token. Raises: ValueError with the reason, in words that follow `it`."""
        from mcpdesk.auth.keys import KeysMissing
        from mcpdesk.auth.tokens import Rejected

        access = self._endpoint.access
        try:
            held = _Held(await access.verify(text), access)
        except Rejected as reason:
            raise ValueError(str(reason)) from None
        except KeysMissing as reason:
            raise ValueError(f"it cannot be checked now: {reason}") from None
        except Exception:
            # Whoever shows what happened shows the values around it, too, and the token is among them.
            log.exception("a token could not be checked")
            raise ValueError("it cannot be checked now") from None
        if held.lacks:
            scopes = " ".join(sorted(held.lacks))
            raise ValueError(f"it lacks the scope {scopes}, which every request here needs")
        return held

    def _end_of(self, held: _Held) -> str:
        if held.access is not self._endpoint.access:
            return CHANGED
        return EXPIRED if held.principal.has_expired(self._clock()) else ""


class ClientToken:
    """The token in the environment of a client over stdio. Used on the core's loop."""

    def __init__(
        self,
        endpoint: HostedEndpoint,
        dialogue: HostedDialogue,
        text: str,
        report: Callable[[str], object],
    ) -> None:
        """`report` is called with the reason when the token is not valid, or no longer."""
        self._held = HeldToken(endpoint, dialogue, lambda function: function())
        self._dialogue = dialogue
        self._text = text
        self._report = report
        self._checking: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Let the dialogue act as the holder, if the token is valid."""
        try:
            await asyncio.wrap_future(self._held.give(self._text))
        except ValueError as reason:
            self._refuse(str(reason))

    def apply(self) -> None:
        """Stop using a token that is no longer valid. Called before frames are taken."""
        held = self._held.view()
        if held is None or not held.ended:
            return
        self._held.drop()
        self._refuse(held.ended)
        if held.ended == CHANGED:
            self._checking = asyncio.create_task(self.check())

    def close(self) -> None:
        """Cancel checks under way."""
        self._held.close()
        if self._checking is not None:
            self._checking.cancel()

    def _refuse(self, reason: str) -> None:
        self._dialogue.identify(Principal("open", refused=reason))
        self._report(f"its {TOKEN_VARIABLE} is not valid here: {reason}")
