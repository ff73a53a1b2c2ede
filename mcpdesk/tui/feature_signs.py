"""Signs of features: parts of the header, modes of the traffic screen, and exchanges with a stopped
message.
"""

from __future__ import annotations

from mcpdesk.feature import ScreenSigns
from mcpdesk.features import features_with
from mcpdesk.link.link import Link


def signs_of(link: Link) -> ScreenSigns:
    """Return the signs of all features, combined into one object."""
    signs = [feature.screen_signs(link) for feature in features_with("screen_signs")]
    return ScreenSigns(
        tuple(part for each in signs for part in each.header),
        tuple(mode for each in signs for mode in each.modes),
        frozenset().union(*(each.stopped for each in signs)),
    )
