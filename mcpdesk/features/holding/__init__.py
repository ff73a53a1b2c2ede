"""Interception of messages: holding them until a person releases them, injected faults, and recorded answers
(mocks).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcpdesk.feature import Feature

if TYPE_CHECKING:
    from mcpdesk.feature import CoreOption, ScreenAction, ScreenSigns
    from mcpdesk.link.feature_part import FeaturePart
    from mcpdesk.link.link import Link
    from mcpdesk.recorder.interceptor import InterceptedCore, Interceptor


class Holding(Feature):
    """Interceptor of messages, keys of the traffic screen, and the option `--faults`."""

    def core_options(self) -> Sequence[CoreOption]:
        """Return the option `--faults`."""
        from mcpdesk.features.holding.faults_option import FAULTS

        return (FAULTS,)

    def interceptor(self, core: InterceptedCore) -> Interceptor:
        """Return the object that holds messages, injects faults and answers from the capture."""
        from mcpdesk.features.holding.holds import Holds

        holds = Holds(core.recording, core.report, core.on_switch, core.disconnect, core.on_part)
        if faults := core.options.get("faults"):
            holds.set_faults(faults)
        return holds

    def link_parts(self) -> Sequence[type[FeaturePart]]:
        """Return the part of the state with the rules and the held messages."""
        from mcpdesk.features.holding.held_message import HoldView

        return (HoldView,)

    def screen_actions(self) -> Sequence[ScreenAction]:
        """Return the keys of the traffic screen."""
        from mcpdesk.features.holding.traffic_actions import ACTIONS

        return ACTIONS

    def screen_signs(self, link: Link) -> ScreenSigns:
        """Return signs that messages are held, answered by a mock, or changed by fault rules."""
        from mcpdesk.features.holding.held_message import hold_view
        from mcpdesk.features.holding.signs import signs_of

        return signs_of(hold_view(link))


FEATURE = Holding()
