"""Link for a front end in the process of the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mcpdesk.link.link import Link


class FrontEnd(NamedTuple):
    """Link to the core, and a function that counts the viewers."""

    link: Link
    attend: Callable[[int], None]
    """Function that changes the number of viewers.

    Viewers are people who can answer questions. May be called on any thread.
    """
