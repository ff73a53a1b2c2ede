"""Division of the space between arguments and result, stored across restarts."""

from __future__ import annotations

import contextlib
from pathlib import Path

from mcpdesk.paths import state_folder

LEAST, MOST = 20, 85
"""Limits of the share of the result in percent."""
NOT_CHOSEN = 0
"""Stored for a share that the person did not choose."""
STEP = 5
_DEFAULT = 55


class Split:
    """Two shares of the result in percent: one if it is beside the arguments, and one if it is below them
    (stacked).
    """

    def __init__(self, memory: Path | None = None) -> None:
        self._memory = memory or state_folder() / "split"
        remembered = zip((False, True), self._remembered(), strict=False)
        self._shares: dict[bool, int] = {stacked: share for stacked, share in remembered if share}

    def share(self, *, stacked: bool) -> int | None:
        """Return the share that the person chose, or None."""
        return self._shares.get(stacked)

    def set(self, share: float, *, stacked: bool) -> None:
        """Set a share. It is limited to the allowed range."""
        self._shares[stacked] = max(LEAST, min(MOST, round(share)))

    def move(self, by: int, *, stacked: bool, visible: float) -> None:
        """Increase the share of the result by `by` percentage points.

        `visible` is the share on the screen, which counts until the person chooses one. A share beyond the
        limits is not moved against the direction of `by`.
        """
        chosen = self.share(stacked=stacked)
        share = visible if chosen is None else chosen
        moved = max(LEAST, min(MOST, share + by))
        if (moved - share) * by > 0:
            self.set(moved, stacked=stacked)

    def parts(self, *, stacked: bool) -> tuple[int, int]:
        """Return the shares of arguments and result in percent."""
        chosen = self.share(stacked=stacked)
        share = _DEFAULT if chosen is None else chosen
        return 100 - share, share

    def store(self) -> None:
        """Store the shares."""
        with contextlib.suppress(OSError):
            self._memory.parent.mkdir(parents=True, exist_ok=True)
            shares = (self._shares.get(stacked, NOT_CHOSEN) for stacked in (False, True))
            self._memory.write_text(" ".join(map(str, shares)) + "\n", "utf-8")

    def _remembered(self) -> list[int]:
        try:
            words = self._memory.read_text("utf-8").split()
        except (OSError, UnicodeDecodeError):
            return []
        shares = [int(word) for word in words if word.isdecimal() and len(word) < 3]
        return shares if all(share == NOT_CHOSEN or LEAST <= share <= MOST for share in shares) else []
