"""Base class of the optional capabilities in `mcpdesk/features`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import click

    from mcpdesk.hosting.host_part import HostPart, StartedCore


class FeatureCommand(NamedTuple):
    """A command of the command line."""

    module: str
    """Module that defines `<name>_command`."""
    group: str
    """Group of the help that lists the command: a key of `OWN_GROUPS` in `cli.main`."""


class BuiltinTool(NamedTuple):
    """A tool that a server folder may enable by name."""

    module: str
    """Module that defines it, by a function with the tool's name."""
    libraries: Mapping[str, str] = MappingProxyType({})
    """Libraries of the extra `tools` that it needs: modules with their packages."""


class FolderSource(NamedTuple):
    """Source from which `mcpdesk new` can make a folder, with options of its own."""

    options: tuple[Callable[[click.decorators.FC], click.decorators.FC], ...]
    example: str
    """Command line for the help."""
    make: Callable[[Path, str, str, Mapping[str, Any]], int | None]
    """Makes the folder from its path, its name as given, the parts, and the options.

    Returns the exit code, or None if none of its options was given.
    """


class Feature:
    """An optional capability. A subclass overrides the members for what it offers.

    Members import their modules when they are called, so that a feature costs nothing until it is used.
    """

    commands: ClassVar[Mapping[str, FeatureCommand]] = MappingProxyType({})
    """Commands by name."""
    builtin_tools: ClassVar[Mapping[str, BuiltinTool]] = MappingProxyType({})
    """Built-in tools by the name in `builtins` of `mcp.json`."""

    def folder_sources(self) -> Sequence[FolderSource]:
        """Sources from which `mcpdesk new` can make a server folder."""
        return ()

    def host_parts(self, core: StartedCore) -> Sequence[HostPart]:
        """Parts of a core that starts. Called on its loop."""
        return ()
