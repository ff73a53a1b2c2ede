"""Where keys come from, and when they are looked for again: a place that may change while we serve."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from mcpdesk.auth.keys import Check, KeySet

Load = Callable[[], Awaitable[KeySet | None]]
"""Reads the keys; None: they are the same as before. Raises: OSError or ValueError with a reason."""


class KeysMissing(Exception):
    """There are no keys to check anything with, now."""


class Pace(Struct, frozen=True):
    """How often a place is asked, in seconds."""

    fresh_s: float
    """Keys younger than that are taken as they are."""
    pause_s: float
    """At least so long between two attempts for the same reason: keys grown old, or one that is not known."""
    trusted_s: float = float("inf")
    """Keys that could not be confirmed for so long count no more."""
    waits: bool = False
    """Whether a token waits while keys that are not fresh are looked at again."""


CONSTANT = Pace(fresh_s=float("inf"), pause_s=float("inf"))
FILE = Pace(fresh_s=1.0, pause_s=0.1, waits=True)
URL = Pace(fresh_s=600.0, pause_s=30.0, trusted_s=86_400.0)


class KeySource:
    """The keys of one place. However many tokens wait, it is asked once at a time.

    `told` hears of trouble, each kind once until it changes.
    """

    def __init__(
        self,
        load: Load,
        pace: Pace,
        told: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._pace = pace
        self._told = told
        self._clock = clock
        self._keys: KeySet | None = None
        self._confirmed = self._tried = self._sought = float("-inf")
        self._trouble = ""
        self._refresh_aio: asyncio.Task[None] | None = None

    def fresh(self) -> KeySet | None:
        """The keys, while they are taken as they are; None: `find` may have to ask first."""
        return self._keys if self._clock() - self._confirmed <= self._pace.fresh_s else None

    async def find(self, algorithm: str, identifier: str | None) -> Sequence[Check]:
        """The checks for a token; an unknown key makes the place be asked again. Raises: KeysMissing."""
        now = self._clock()
        if self._keys is None or now - self._confirmed > self._pace.fresh_s:
            refreshing = self._refresh(now)
            if refreshing is not None and (self._keys is None or self._pace.waits):
                await asyncio.wait({refreshing})
        checks = self._trusted(now).find(algorithm, identifier)
        if not checks and (refreshing := self._seek(now)) is not None:
            await asyncio.wait({refreshing})
            checks = self._trusted(now).find(algorithm, identifier)
        return checks

    def close(self) -> None:
        """Ask no more."""
        if self._refresh_aio is not None:
            self._refresh_aio.cancel()

    def _trusted(self, now: float) -> KeySet:
        if self._keys is None or now - self._confirmed > self._pace.trusted_s:
            raise KeysMissing(self._trouble or "no keys have been found yet")
        return self._keys

    def _seek(self, came: float) -> asyncio.Task[None] | None:
        """An attempt because a token that came then names an unknown key; None: not so soon again.

        Whatever was read before the token came may be out of date, however lately that was; what is constant
        is never read again.
        """
        has_answered = self._confirmed >= self._tried
        if has_answered and self._confirmed < came and came - self._sought > self._pace.pause_s:
            self._sought = came
            self._tried = float("-inf")
        return self._refresh(self._clock())

    def _refresh(self, now: float) -> asyncio.Task[None] | None:
        """The attempt under way, or a new one; None when the last was too short a while ago."""
        if self._refresh_aio is not None:
            return self._refresh_aio
        if now - self._tried < self._pace.pause_s:
            return None
        self._tried = now
        self._refresh_aio = asyncio.get_running_loop().create_task(self._renew())
        return self._refresh_aio

    async def _renew(self) -> None:
        try:
            keys = await self._load()
        except (OSError, ValueError) as error:
            self._tell(str(error))
        else:
            self._keys = self._keys if keys is None else keys
            self._confirmed = self._clock()
            if keys is not None:
                self._tell("; ".join(keys.complaints))
        finally:
            self._refresh_aio = None

    def _tell(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            self._told(trouble)
        self._trouble = trouble


def constant(keys: KeySet) -> Load:
    """What reads keys that do not change."""

    async def load() -> KeySet:
        return keys

    return load
