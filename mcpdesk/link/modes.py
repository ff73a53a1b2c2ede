"""The modes of a hosted folder as a front end sees them. Read in place, from any thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mcpdesk.hosting.folder.manifest import Mode
from mcpdesk.hosting.hosted_folder import HostedFolder, no_tool
from mcpdesk.link.values import ModeView


class ModeList:
    """Made anew only when the modes or the tools changed."""

    def __init__(self, hosted: HostedFolder) -> None:
        self._hosted = hosted
        self._made_of: tuple[int, Mapping[str, Mode]] = (-1, {})
        self._views: tuple[ModeView, ...] = ()

    def views(self) -> tuple[ModeView, ...]:
        """Each mode with what it offers, and with what it names and does not offer."""
        version, modes = self._hosted.server.tools.version, self._hosted.modes.describe()
        if self._made_of[0] != version or self._made_of[1] is not modes:
            self._views = tuple(self._made(modes))
            self._made_of = version, modes
        return self._views

    def _made(self, modes: Mapping[str, Mode]) -> Iterator[ModeView]:
        tools = self._hosted.server.tools
        offered = {tool.name for tool in tools}
        reasons = {each.name: each.reason for each in tools.unavailable}
        for name, mode in modes.items():
            named = dict.fromkeys(mode.tools)
            missing = [each for each in named if each not in offered]
            yield ModeView(
                name,
                mode.description,
                tuple(each for each in named if each in offered),
                tuple((each, reasons.get(each) or no_tool(each, self._hosted.tools)) for each in missing),
            )
