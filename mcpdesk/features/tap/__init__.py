"""Taps. A tap starts a program for a client, records the messages between the two, and can hold messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcpdesk.feature import Feature, FeatureCommand

if TYPE_CHECKING:
    from mcpdesk.feature import LiveCapture
    from mcpdesk.link.capture_link import CaptureLink
    from mcpdesk.recorder.archive import Archive
    from mcpdesk.transports.relay import RelayTraffic

_WRAP = FeatureCommand("mcpdesk.features.tap.wrap_command", "Clients and recordings", "trust")


class Tap(Feature):
    """The commands `wrap` and `unwrap`, and captures of `mcpdesk stdio -- COMMAND`."""

    commands = {"wrap": _WRAP, "unwrap": _WRAP}

    def record_relay(self, argv: Sequence[str], traffic: RelayTraffic) -> None:
        """Write a capture."""
        from mcpdesk.features.tap.taps import write_capture

        write_capture(argv, traffic)

    def live_captures(self) -> Sequence[LiveCapture]:
        """Return the captures of running taps."""
        from mcpdesk.feature import LiveCapture
        from mcpdesk.features.tap.taps import running_taps
        from mcpdesk.paths import state_folder

        taps = running_taps(state_folder())
        return [LiveCapture(each.pid, each.command, each.client, each.started, each.capture) for each in taps]

    def live_link(self, archive: Archive, first_notice: str) -> CaptureLink | None:
        """Return a link to the tap that writes the capture. The link can hold messages of the tap."""
        from mcpdesk.features.tap.tap_link import link_to_tap

        return link_to_tap(archive, first_notice)


FEATURE = Tap()
