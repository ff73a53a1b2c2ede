"""Bearer token of a dialogue. While the token is valid, it determines the dialogue's principal.

A dialogue is the connection of one client to a hosted server (`HostedDialogue`). `DialogueToken` is for the
desk's own dialogues: the person at the desk enters the token, which is not stored. `ClientToken` is for a
client over stdio, which passes the token in its environment.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import NamedTuple

from msgspec import Struct

from mcpdesk.auth.access import Access
from mcpdesk.auth.principal import OPEN, TOKEN_VARIABLE, Principal

EXPIRED = "it has expired"
RULES_CHANGED = "the token rules in mcp.json have changed"
log = logging.getLogger("mcpdesk.auth")


class UncheckedToken(ValueError):
    """The token cannot be checked now, but may be valid."""


class TokenView(Struct, frozen=True):
    """Principal of a token, as a front end shows it."""

    name: str
    scopes: frozenset[str]
    """Scopes of the token, including the scopes that these imply."""
    expires: float | None = None
    """Unix time in seconds when the token expires, or None."""
    ended: str = ""
    """Reason why the token is no longer valid, as a clause such as "it has expired", or "" while the token is
    valid.
    """


class _AcceptedToken(NamedTuple):
    """Principal of a token, and the access rules that accepted it."""

    principal: Principal
    access: Access

    @property
    def missing_scopes(self) -> frozenset[str]:
        """Scopes that every request needs and that the token lacks."""
        return self.access.scopes - self.principal.scopes


class DialogueToken:
    """Token of one dialogue. The server's access rules check it once.

    `access` returns the current rules. `identify` sets the dialogue's principal. `run` schedules a function
    on the core's loop and may be called on any thread.
    """

    def __init__(
        self,
        access: Callable[[], Access],
        identify: Callable[[Principal], None],
        run: Callable[[Callable[[], object]], object],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._access = access
        self._identify = identify
        self._run = run
        self._clock = clock
        self._token: _AcceptedToken | None = None
        """Token in use, or None."""
        self._checks: set[asyncio.Task[_AcceptedToken]] = set()
        """Running checks."""

    def view(self) -> TokenView | None:
        """Principal of the token, or None without a token. May be read on any thread."""
        token = self._token
        if token is None:
            return None
        principal = token.principal
        return TokenView(principal.name, principal.scopes, principal.expires, self._end_reason(token))

    def give(self, text: str, needs: Collection[str] = ()) -> Future[tuple[str, ...]]:
        """Check the token `text`, and use its principal for this dialogue from now on. May be called on any
        thread.

        The future's result lists the scopes in `needs` that the token lacks. If the token lacks any, it is
        not used. For an invalid token the future fails with a ValueError that has the reason. If the future
        is cancelled before the check ends, nothing changes.
        """
        future: Future[tuple[str, ...]] = Future()

        def start_check() -> None:
            task = asyncio.get_running_loop().create_task(self._verify(text))
            self._checks.add(task)
            task.add_done_callback(lambda task: self._on_check_end(task, needs, future))

        self._run(start_check)
        return future

    def drop(self) -> None:
        """Stop using the token. May be called on any thread."""

        def remove_token() -> None:
            self._token = None
            self.apply()

        self._run(remove_token)

    def apply(self) -> None:
        """Set the dialogue's principal: that of the token while it is valid, else the anonymous one.

        Called on the core's loop before a message is sent.
        """
        token = self._token
        self._identify(OPEN if token is None or self._end_reason(token) else token.principal)

    def close(self) -> None:
        """Cancel running checks."""
        for task in self._checks:
            task.cancel()

    def _on_check_end(
        self, task: asyncio.Task[_AcceptedToken], needs: Collection[str], future: Future[tuple[str, ...]]
    ) -> None:
        """Use a token whose check has ended, unless it is invalid or lacks scopes."""
        self._checks.discard(task)
        if task.cancelled():
            future.cancel()
            return
        error = task.exception()
        if not future.set_running_or_notify_cancel():
            return
        if error is not None:
            future.set_exception(error)
            return
        token = task.result()
        missing_scopes = tuple(scope for scope in needs if scope not in token.principal.scopes)
        if not missing_scopes:
            self._token = token
            self.apply()
        future.set_result(missing_scopes)

    async def _verify(self, text: str) -> _AcceptedToken:
        """Check a token.

        Raises: ValueError with the reason, as a clause such as "it has expired"; UncheckedToken.
        """
        from mcpdesk.auth.keys import KeysMissing
        from mcpdesk.auth.principal import Rejected

        access = self._access()
        try:
            token = _AcceptedToken(await access.verify(text), access)
        except Rejected as reason:
            raise ValueError(str(reason)) from None
        except KeysMissing as reason:
            raise UncheckedToken(f"it cannot be checked now: {reason}") from None
        except Exception:
            # Textual shows local variables in the traceback of a crash. `from None` leaves out the cause,
            # whose local variables contain the token.
            log.exception("a token could not be checked")
            raise ValueError("it cannot be checked now") from None
        if token.missing_scopes:
            scopes = " ".join(sorted(token.missing_scopes))
            raise ValueError(f"it lacks the scope {scopes}, which every request here needs")
        return token

    def _end_reason(self, token: _AcceptedToken) -> str:
        """Return the reason why a token is no longer valid, or "" while it is valid."""
        if token.access is not self._access():
            return RULES_CHANGED
        return EXPIRED if token.principal.has_expired(self._clock()) else ""


class ClientToken:
    """Bearer token in the environment of a client over stdio. Use it on the core's loop."""

    def __init__(
        self,
        access: Callable[[], Access],
        identify: Callable[[Principal], None],
        text: str,
        report: Callable[[str], object],
    ) -> None:
        """`access` and `identify` are those of `DialogueToken`.

        `report` is called with the reason when the token is invalid or has become invalid.
        """
        self._dialogue_token = DialogueToken(access, identify, lambda function: function())
        self._access = access
        self._identify = identify
        self._text = text
        self._report = report
        self._reported_reason = ""
        """Reason that was reported last."""
        self._checked_access: Access | None = None
        """Access rules used in the latest check, or None before the first one."""
        self._is_unchecked = False
        """True if the latest check could not be completed and must be repeated."""
        self._check_task: asyncio.Task[None] | None = None
        self._must_frames_wait = False
        """True if frames must wait for the running check."""
        self._is_closed = False

    @property
    def is_settled(self) -> bool:
        """False while the token is checked under changed access rules.

        Frames must then wait for `settled`.
        """
        return not (self._must_frames_wait and self._is_checking)

    async def settled(self) -> None:
        """Wait until the token is checked under the current access rules."""
        self.apply()
        while not self.is_settled and self._check_task is not None:
            await asyncio.wait({self._check_task})
            self.apply()

    async def check(self) -> None:
        """Check the token, and use its principal if it is valid.

        If the manifest has no `auth.jwt`, the token is ignored.
        """
        # Repeated if the access rules change during the check.
        while self._checked_access is not (access := self._access()) or self._is_unchecked:
            self._checked_access = access
            self._is_unchecked = False
            if access.verifier is None:
                self._dialogue_token.drop()
                self._reported_reason = ""
                continue
            try:
                await asyncio.wrap_future(self._dialogue_token.give(self._text))
            except UncheckedToken as reason:
                self._refuse(str(reason))
                self._is_unchecked = True
                if self._access() is access:
                    return
            except ValueError as reason:
                self._refuse(str(reason))
            else:
                self._reported_reason = ""

    def apply(self) -> None:
        """Stop using a token that is no longer valid, and start a check if one is needed.

        Called before frames are handled. Frames wait for a check under changed access rules. They do not wait
        for the repetition of a check that failed because keys were missing.
        """
        if self._is_closed:
            return
        view = self._dialogue_token.view()
        if view is not None and view.ended:
            self._dialogue_token.drop()
            self._refuse(view.ended)
        has_changed = self._checked_access is not self._access()
        if self._is_checking:
            self._must_frames_wait |= has_changed  # `check` repeats itself with the new rules
        elif has_changed or self._is_unchecked:
            self._must_frames_wait = has_changed
            self._check_task = asyncio.create_task(self.check())

    @property
    def _is_checking(self) -> bool:
        return self._check_task is not None and not self._check_task.done()

    def close(self) -> None:
        """Cancel running checks."""
        self._is_closed = True
        self._dialogue_token.close()
        if self._check_task is not None:
            self._check_task.cancel()

    def _refuse(self, reason: str) -> None:
        """Refuse all requests of the client, and report a new reason."""
        self._identify(Principal("open", refused=reason))
        if reason != self._reported_reason:
            self._reported_reason = reason
            self._report(f"its {TOKEN_VARIABLE} is not valid here: {reason}")
