"""Messages that wait until a person releases them, faults by rule, and answers from the capture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcpdesk.feature import Feature

if TYPE_CHECKING:
    from mcpdesk.feature import ScreenAction, ScreenSigns
    from mcpdesk.link.link import Link


class Holding(Feature):
    """Keys of the traffic screen, and signs that messages are held, changed or answered at the desk."""

    def screen_actions(self) -> Sequence[ScreenAction]:
        """Return the keys of the traffic screen."""
        from mcpdesk.features.holding.traffic_actions import ACTIONS

        return ACTIONS

    def screen_signs(self, link: Link) -> ScreenSigns:
        """Return signs that messages are held, answered by a mock, or changed by fault rules."""
        from mcpdesk.features.holding.signs import signs_of

        return signs_of(link.held())


FEATURE = Holding()
