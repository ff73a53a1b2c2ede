"""Division of the space between arguments and result, stored across restarts."""

from __future__ import annotations

import contextlib
from pathlib import Path

from mcpdesk.paths import state_folder

MIN_PERCENT, MAX_PERCENT = 20, 85
"""Limits of the share of the result in percent."""
NOT_CHOSEN = 0
"""Stored value of a share that the person did not choose."""
STEP_PERCENT = 5
"""Change of a share by one key press, in percentage points."""
_DEFAULT_PERCENT = 55
"""Share of the result in percent if the person chose none."""


class Split:
    """Two shares of the result in percent: one for a result beside the arguments, and one for a result below
    them (stacked).
    """

    def __init__(self, path: Path | None = None) -> None:
        self._file = path or state_folder() / "split"
        stored_shares = zip((False, True), self._stored_shares(), strict=False)
        self._shares: dict[bool, int] = {
            is_stacked: share for is_stacked, share in stored_shares if share != NOT_CHOSEN
        }
        """Share of the result in percent that the person chose, for False (beside) and True (stacked)."""

    def share(self, *, is_stacked: bool) -> int | None:
        """Return the share that the person chose, or None."""
        return self._shares.get(is_stacked)

    def set(self, share: float, *, is_stacked: bool) -> None:
        """Set a share. It is limited to the allowed range."""
        self._shares[is_stacked] = max(MIN_PERCENT, min(MAX_PERCENT, round(share)))

    def move(self, by: int, *, is_stacked: bool, visible_share: float) -> None:
        """Increase the share of the result by `by` percentage points.

        If the person has not chosen a share yet, the change starts from `visible_share`, the share on the
        screen. A share beyond the limits is not moved against the direction of `by`.
        """
        chosen_share = self.share(is_stacked=is_stacked)
        share = visible_share if chosen_share is None else chosen_share
        new_share = max(MIN_PERCENT, min(MAX_PERCENT, share + by))
        if (new_share - share) * by > 0:
            self.set(new_share, is_stacked=is_stacked)

    def parts(self, *, is_stacked: bool) -> tuple[int, int]:
        """Return the shares of arguments and result in percent."""
        chosen_share = self.share(is_stacked=is_stacked)
        share = _DEFAULT_PERCENT if chosen_share is None else chosen_share
        return 100 - share, share

    def store(self) -> None:
        """Store the shares."""
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            shares = (self._shares.get(is_stacked, NOT_CHOSEN) for is_stacked in (False, True))
            self._file.write_text(" ".join(map(str, shares)) + "\n", "utf-8")

    def _stored_shares(self) -> list[int]:
        """Return the two stored shares. Return fewer or none if the file is missing or invalid."""
        try:
            words = self._file.read_text("utf-8").split()
        except (OSError, UnicodeDecodeError):
            return []
        shares = [int(word) for word in words if word.isdecimal() and len(word) < 3]
        are_valid = all(share == NOT_CHOSEN or MIN_PERCENT <= share <= MAX_PERCENT for share in shares)
        return shares if are_valid else []
