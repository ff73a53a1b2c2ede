"""Base class of the optional capabilities in `mcpdesk/features`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    import click
    from textual.widget import Widget

    from mcpdesk.auth.operator import Operator
    from mcpdesk.client.targets import Target
    from mcpdesk.client.transport import ClientTransport
    from mcpdesk.hosting.folder.file_items import FileItems
    from mcpdesk.hosting.folder.manifest import Manifest
    from mcpdesk.hosting.host_part import HostPart, StartedCore
    from mcpdesk.hosting.journal import Journal
    from mcpdesk.hosting.shared_core import SharedCore, SharingCore
    from mcpdesk.inbox.question import Question
    from mcpdesk.link.capture_link import CaptureLink
    from mcpdesk.link.feature_part import FeaturePart
    from mcpdesk.link.link import Link
    from mcpdesk.link.values import CatalogueItem, CoreView
    from mcpdesk.protocol.catalogue.contract import Definitions
    from mcpdesk.protocol.jsonrpc import Id, JSONObject
    from mcpdesk.recorder.archive import Archive
    from mcpdesk.recorder.exchange_text import LogLinesOf
    from mcpdesk.recorder.index.traffic_index import Index
    from mcpdesk.recorder.interceptor import InterceptedCore, Interceptor
    from mcpdesk.settings import Settings
    from mcpdesk.transports.http.extra_routes import DialectPath, ExtraRoutes
    from mcpdesk.transports.http.mcp_routes import McpRoutes
    from mcpdesk.transports.http.other_processes import OtherProcesses
    from mcpdesk.transports.http.sessions.http_sessions import HttpSessions
    from mcpdesk.transports.http.site import Site
    from mcpdesk.transports.http.websocket import SocketRoutes
    from mcpdesk.transports.relay import RelayTraffic
    from mcpdesk.tui.action import Action
    from mcpdesk.tui.widgets.part_line import LinePart
    from mcpdesk.upstream.target_transport import Reach


class FeatureCommand(Struct, frozen=True):
    """A command of the command line."""

    module: str
    """Module that defines `<name>_command`."""
    group: str
    """Group of the help that lists the command: a key of `OWN_GROUPS` in `cli.main`."""
    before: str = ""
    """Name of another command of the group. This command is listed before it. If the name is empty or not in
    the group, this command is listed last.
    """
    takes_any_server: bool = False
    """True if the server of this command may be given as a command line after `--`."""


class BuiltinTool(Struct, frozen=True):
    """A tool that a server folder may enable by name."""

    module: str
    """Module that defines the tool, as a function with the tool's name."""
    libraries: Mapping[str, str] = MappingProxyType({})
    """Packages that the tool needs, by module name. The extra `tools` installs them."""
    settings: tuple[str, ...] = ()
    """Names of the settings that only this tool uses. The tool finds the values of these settings in
    `ToolOptions.settings`.
    """


class FolderSource(Struct, frozen=True):
    """Kind of input from which `mcpdesk new` makes a server folder, with its own command line options."""

    options: tuple[Callable[[click.decorators.FC], click.decorators.FC], ...]
    """Decorators that add the options to the command."""
    example: str
    """Command line for the help."""
    make: Callable[[Path, str, str, Mapping[str, Any]], int | None]
    """Function that makes the folder. Its arguments are the path, the values of NAME and `--with` on the
    command line, and the values of the options. It returns the exit code, or None if no option of this source
    was given.
    """


class LiveCapture(Struct, frozen=True):
    """Capture that another process writes."""

    pid: int
    command: tuple[str, ...]
    """Command of the server whose messages are recorded."""
    client: str
    """Name of the program that started the process."""
    started: float
    """Unix time in seconds."""
    path: str


class AttachedLink(Struct, frozen=True):
    """Link to cores of other processes."""

    link: Link
    journal: Journal
    """Log of the cores."""
    title: str
    """Description for a person."""
    close: Callable[[], None]
    """Function that closes the link."""


class OpenConnection(NamedTuple):
    """Connection to a server that another process of this user keeps open."""

    name: str
    pid: int
    """Id of the process."""
    folder: Path | None
    """Folder that the process hosts, or None for any other server."""
    transport: Callable[[], ClientTransport]
    """Function that returns a transport to the server for one client. It must not be called for a folder.
    Raises: DeskUserError if the process has ended.
    """
    opened: Callable[[], tuple[Target, Reach]]
    """Function that returns the server, and the options for a second connection to it. Raises: DeskUserError
    if the process has ended.
    """


class ServedCore(Struct, frozen=True):
    """A core whose screen is served to browsers."""

    settings: Settings
    operator: Operator
    state_dir: str
    """Path of the state folder, or empty for the default folder."""
    environment: Mapping[str, str]
    """Environment of programs that the core starts."""


class CoreOption(Struct, frozen=True):
    """Option of the commands that start a core for clients."""

    name: str
    """Name of the click parameter. `Feature.interceptor` finds the value of the option under the same name.
    """
    add: Callable[[click.decorators.FC], click.decorators.FC]
    """Decorator that adds the option to a command."""
    read: Callable[[Any], str]
    """Function that converts the value from the command line to a text. Raises: DeskUserError."""
    example: str
    """Example for the help of `mcpdesk serve`: a command line and its meaning."""


class MenuLine(NamedTuple):
    """Line of a menu of the screen."""

    title: str
    use: str
    """Description of the purpose."""
    key: str


class Exporter(Struct, frozen=True):
    """Format for exchanges that the screen writes to a file."""

    name: str
    ending: str
    """End of the file's name, after the time."""
    menu: MenuLine
    write: Callable[[Index, Sequence[int], LogLinesOf], Iterator[bytes]]
    """Function that returns the file's content. The numbers of the exchanges are in ascending order and
    include the parts of each exchange.
    """
    requests: Callable[[Index, Iterable[int]], list[int]] | None = None
    """Function that returns the exchanges that the format supports, such as only those over HTTP. None if the
    format supports all exchanges.
    """
    menu_of_one: MenuLine | None = None
    """Line that writes only the selected exchange."""


class ExchangeFacts(Struct, frozen=True):
    """Facts about an exchange that its messages do not contain."""

    log_lines_of: LogLinesOf
    """Function that returns the log lines of an exchange."""
    url: str = ""
    """URL of the server. It is used only if the exchange did not use HTTP."""
    headers: Mapping[str, str] = MappingProxyType({})
    """Headers that requests to `url` need, with secrets masked."""
    schema: Any = None
    """Input schema of the called tool. Values that it marks as secret are masked."""


class ExchangeCopy(Struct, frozen=True):
    """Text of one exchange for the clipboard."""

    menu: MenuLine
    make: Callable[[Index, int, ExchangeFacts], str]
    """Function that returns the text of the exchange with a number."""
    is_command: bool = False
    """True if the text is a shell command that repeats the request."""


class CaseRecorder(Struct, frozen=True):
    """Format for writing recorded calls as test cases of their servers."""

    menu: MenuLine
    menu_of_one: MenuLine
    """Line that writes only the selected exchange."""
    recordable: Callable[[Index, Iterable[int]], list[int]]
    """Function that returns the exchanges that can become test cases."""
    cases: Callable[[Index, Iterable[int]], list[bytes]]
    """Function that returns the exchanges as test cases."""
    case_file: Callable[[Iterable[bytes]], Iterator[bytes]]
    """Function that returns the content of a file with the given test cases."""
    folder: Callable[[str, str], Path]
    """Function that returns the folder of the test cases of a server. Its parameters are the name of the
    server, and the folder of a hosted server or an empty text.
    """
    save: Callable[[Index, Sequence[int], Mapping[str, str], Sequence[Question]], str]
    """Function that writes calls to files and returns a message. Raises: OSError. Its parameters are the
    exchanges, the folders of hosted servers by name, and the questions of the inbox.
    """


class ScreenAction(Struct, frozen=True):
    """Key of a widget of the screen, with the function that it calls."""

    action: Action
    before: str
    """Id of another action. This action is listed before it."""
    name: str
    """Name in the palette. It must be clear without the context of the screen."""
    words: str
    """Additional search words for the palette."""
    run: Callable[..., object]
    """Function that is called with the widget that implements the scope of the action."""
    is_available: Callable[[CoreView], bool]
    applies: Callable[[Any], bool] | None = None
    """Function that returns True if the action is possible for the selection of the widget, or None if the
    action is always possible. Only the workbench and Traffic call the function. An action with a function may
    have the same key as a later action of the widget.
    """
    is_offered_everywhere: bool = False
    """True if the palette also offers the action on other screens. The screen of the action is then shown
    first.
    """

    def is_possible(self, widget: Any, view: CoreView) -> bool:
        """Return True if the action is possible for the selection of a widget."""
        return self.is_available(view) and (self.applies is None or self.applies(widget))


class ItemMark(NamedTuple):
    """Mark of a catalogue item of the screen."""

    word: str
    """Text for the header of the item."""
    glyph: str


class ScreenSigns(Struct, frozen=True):
    """State of a feature, as the screen shows it in several places."""

    header: tuple[LinePart, ...] = ()
    """Parts of the header line."""
    modes: tuple[str, ...] = ()
    """Active modes for the status line of Traffic."""
    stopped: Collection[tuple[int, Id | None]] = frozenset()
    """Exchanges with a message that is held until a person decides, each as its connection and id."""


class Feature:
    """An optional capability. A subclass overrides only the members that it needs.

    The methods import further modules when they are called, so that a feature costs nothing until it is used.
    """

    commands: ClassVar[Mapping[str, FeatureCommand]] = MappingProxyType({})
    """Commands by name."""
    builtin_tools: ClassVar[Mapping[str, BuiltinTool]] = MappingProxyType({})
    """Built-in tools by the name in `builtins` of `mcp.json`."""
    client_extensions: ClassVar[Mapping[str, JSONObject]] = MappingProxyType({})
    """Extensions of MCP that a core declares to servers as their client: settings by id."""
    pytest_plugins: ClassVar[Sequence[str]] = ()
    """Modules that are plugins for pytest."""

    def folder_sources(self) -> Sequence[FolderSource]:
        """Return the kinds of input that `mcpdesk new` can convert to a server folder."""
        return ()

    def command_tools(self, manifest: Manifest, environment: Mapping[str, str]) -> FileItems:
        """Return the tools that `commands` of a manifest defines. Called on any thread.

        `environment` is the environment of the programs. Called only if a feature overrides this method.
        """
        raise NotImplementedError

    def agreed_definitions(self, lock_file: Path) -> Definitions | None:
        """Return the definitions in a lock file, or None if it is missing or unusable.

        The current definitions of a server are compared with them. Called on any thread.
        """
        return None

    def result_limits(self, message: bytes, definition: Mapping[str, Any], peer: str) -> Sequence[str]:
        """Return sentences about the clients whose limits the result of a tool exceeds.

        `message` is the response, `definition` is the definition of the tool, and `peer` is the client that
        called the tool. Called on a worker thread, for large responses.
        """
        return ()

    def host_parts(self, core: StartedCore) -> Sequence[HostPart]:
        """Return parts that the feature adds to a core that starts. Called on the core's loop."""
        return ()

    def exporters(self) -> Sequence[Exporter]:
        """Return the file formats for exchanges of the traffic, in the order of the menu."""
        return ()

    def case_recorder(self) -> CaseRecorder | None:
        """Return the recorder that writes calls as test cases, or None."""
        return None

    def exchange_copies(self) -> Sequence[ExchangeCopy]:
        """Return the texts of one exchange that a person can copy, in the order of the menu."""
        return ()

    def record_relay(self, argv: Sequence[str], traffic: RelayTraffic) -> None:
        """Record the traffic of `mcpdesk stdio -- COMMAND` until the traffic ends. Called in a separate
        process that only records.
        """

    def live_captures(self) -> Sequence[LiveCapture]:
        """Return the captures that other processes are writing, newest first."""
        return ()

    def live_link(self, archive: Archive, first_notice: str) -> CaptureLink | None:
        """Return a link that can also control the process that writes the capture, or None if the capture can
        only be shown.
        """
        return None

    def link_to_cores(self, names: Sequence[str]) -> AttachedLink | None:
        """Return a link to the cores of this machine that have these names or process ids.

        Raises: DeskUserError.
        """
        return None

    def link_to_engine(self, url: str) -> AttachedLink | None:
        """Return a link to all cores that share the engine at `url`. If `url` is empty, the configured engine
        is used. Raises: DeskUserError.
        """
        return None

    def shared_core(self, core: SharingCore) -> SharedCore | None:
        """Return the connection of a core to the other cores with which it shares its state. The setting
        `shared` names the engine.

        Raises: DeskUserError for a wrong value of the setting.
        """
        return None

    def other_processes(self, site: Site, sessions: HttpSessions) -> OtherProcesses | None:
        """Return a forwarder of HTTP requests to other processes that serve the same clients, or None."""
        return None

    def require_free_address(self, settings: Settings) -> None:
        """Check the address of `served_pages`, before any code of a folder runs. Raises: DeskError."""

    def served_pages(self, core: ServedCore, theme: str | None) -> AbstractContextManager[list[str]]:
        """Serve the desk to browsers during the block. The block receives messages with the addresses.
        Raises: DeskError.
        """
        return nullcontext([])

    def picture_view(self, encoded: str, note: str) -> Widget | None:
        """Return a widget for a picture in a result. `encoded` is the picture in base64, `note` a
        description.
        """
        return None

    def open_connection(
        self, target: str, *, has_options: bool, is_name: bool = False
    ) -> OpenConnection | None:
        """Return the open connection that a command uses for a target, or None.

        `target` is the name of a connection, or a server. With `is_name`, it is always a name. `has_options`
        is True if the command has options for a new connection. Raises: DeskUserError if the connection
        cannot be used.
        """
        return None

    def open_connection_names(self) -> Sequence[str]:
        """Return the names of the open connections."""
        return ()

    def core_options(self) -> Sequence[CoreOption]:
        """Return the options that the feature adds to the commands that start a core for clients."""
        return ()

    def interceptor(self, core: InterceptedCore) -> Interceptor | None:
        """Return the interceptor for the messages of a core. Called before the core runs."""
        return None

    def link_parts(self) -> Sequence[type[FeaturePart]]:
        """Return the kinds of state that the feature adds to a link."""
        return ()

    def screen_actions(self) -> Sequence[ScreenAction]:
        """Return keys of the screen with their actions."""
        return ()

    def item_mark(self, item: CatalogueItem) -> ItemMark | None:
        """Return the mark of a catalogue item, or None if the item has none. Called for every drawn line."""
        return None

    def screen_signs(self, link: Link) -> ScreenSigns:
        """Return the state of the feature for the screen. Called at every refresh."""
        return ScreenSigns()

    def dialect_paths(self, mcp: McpRoutes, sockets: SocketRoutes) -> Sequence[DialectPath]:
        """Return the paths of an HTTP listener at which clients use a dialect of MCP. The arguments are the
        listener's own endpoints.
        """
        return ()

    def http_routes(self, site: Site) -> Sequence[ExtraRoutes]:
        """Return routes of an HTTP listener, for paths that the listener itself does not serve."""
        return ()
