"""Signs of features: parts of the header, modes of the traffic screen, and exchanges with a stopped
message.
"""

from __future__ import annotations

from mcpdesk.feature import ScreenSigns
from mcpdesk.features import features_with
from mcpdesk.link.link import Link


def signs_of(link: Link) -> ScreenSigns:
    """Return the signs of all features, combined into one object."""
    all_signs = [feature.screen_signs(link) for feature in features_with("screen_signs")]
    return ScreenSigns(
        tuple(part for signs in all_signs for part in signs.header),
        tuple(mode for signs in all_signs for mode in signs.modes),
        frozenset().union(*(signs.stopped for signs in all_signs)),
    )
