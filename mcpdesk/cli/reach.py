"""Options with which a command accesses a server, resolution of its target, and hints for errors."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections import deque
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcpdesk.cli.printing import CANNOT_CONNECT, exit_code, print_message
from mcpdesk.client.oauth.login_options import LoginOptions, Secret
from mcpdesk.errors import (
    AuthorizationError,
    CallError,
    DeskError,
    DeskUserError,
    InvalidAnswer,
    RemoteProtocolError,
    RpcError,
)
from mcpdesk.features import features_with
from mcpdesk.plain_text import clean
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.protocol.revisions import BY_NAME, ERAS
from mcpdesk.transports.clean_terminal import is_terminal
from mcpdesk.upstream.target_transport import Reach

if TYPE_CHECKING:
    from socket import socket

    from mcpdesk.client.child_process import ProgramEnded
    from mcpdesk.client.config_files import ConfigFile
    from mcpdesk.client.configs.servers import InputVariable
    from mcpdesk.client.targets import CommandTarget, Target
    from mcpdesk.client.transport import ClientTransport
    from mcpdesk.client.trust import Agree
    from mcpdesk.client.untrusted_file import UntrustedFile
    from mcpdesk.feature import OpenConnection
    from mcpdesk.protocol.jsonrpc import Id
    from mcpdesk.protocol.reading.remark import Remark

MAX_HELD_LINES = 200
"""Maximum number of log lines that are kept while a program connects. Older lines are dropped."""
MAX_STRAY_LINES = 20
"""Maximum number of lines on stdout that are printed of one run of a program."""
MAX_REMARKS = 50
"""Maximum number of remarks that are printed."""
_ACCOUNT_NAME = re.compile(r"[\w@.+-]{1,64}", re.ASCII)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
TOKEN_HINTS: dict[int, str] = {
    ErrorCode.UNAUTHORIZED: "Give a token{} by --token-env.",
    ErrorCode.FORBIDDEN: "Give another token{} by --token-env.",
}
"""Hint by error code. The placeholder is replaced by the required scopes, or by an empty text."""


def login_flags(is_hidden: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the login options to a command. `given_login` reads them."""
    port = click.IntRange(0, 65535)
    options = (
        click.option("--client-id", default="", metavar="ID", hidden=is_hidden,
                     help="OAuth client ID of mcpdesk. Default: mcpdesk registers itself."),
        click.option("--client-secret-env", metavar="VAR", hidden=is_hidden,
                     help="Environment variable with the client secret."),
        click.option("--client-secret-file", metavar="FILE", hidden=is_hidden,
                     help="File with the client secret."),
        click.option("--client-key-file", metavar="FILE", hidden=is_hidden,
                     help="File with the client's private key (PEM), to log in without a user."),
        click.option("--client-credentials", is_flag=True, hidden=is_hidden,
                     help="Log in as the client, without a user. Needs its ID, and its secret or key."),
        click.option("--client-issuer", default="", metavar="URL", hidden=is_hidden,
                     help="Use only this authorization server, where your client ID is registered."),
        click.option("--client-metadata-url", default="", metavar="URL", hidden=is_hidden,
                     help="URL of a client metadata document. Use it instead of registering a client."),
        click.option("--assertion-env", metavar="VAR", hidden=is_hidden,
                     help="Environment variable with a signed token from your platform, to log in with."),
        click.option("--assertion-file", metavar="FILE", hidden=is_hidden,
                     help="File with a signed token from your platform. It is read at each login."),
        click.option("--idp-token-url", default="", metavar="URL", hidden=is_hidden,
                     help="Token endpoint of your identity provider, for enterprise login."),
        click.option("--idp-client-id", default="", metavar="ID", hidden=is_hidden,
                     help="Client ID of mcpdesk at the identity provider."),
        click.option("--id-token-env", metavar="VAR", hidden=is_hidden,
                     help="Environment variable with your ID token from the identity provider."),
        click.option("--id-token-file", metavar="FILE", hidden=is_hidden,
                     help="File with your ID token. It is read at each login."),
        click.option("--scope", default="", metavar="SCOPES", hidden=is_hidden,
                     help="Scopes to request, separated by spaces. Default: those that the server names."),
        click.option("--callback-port", type=port, default=0, metavar="PORT", hidden=is_hidden,
                     help="Local port that receives the redirect after the login. Default: random."),
        click.option("--assume-pkce", is_flag=True, hidden=is_hidden,
                     help="Use PKCE even if the server's metadata does not list it."),
    )  # fmt: skip

    def add_options(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return add_options


LOGIN_FLAGS = frozenset(
    {
        "client_id", "client_secret_env", "client_secret_file", "client_key_file", "client_credentials",
        "client_issuer", "client_metadata_url", "assertion_env", "assertion_file", "idp_token_url",
        "idp_client_id", "id_token_env", "id_token_file", "scope", "callback_port", "assume_pkce",
    }
)  # fmt: skip
"""Names of the parameters of `login_flags`."""
SECRET_VARIABLES = ("token_env", "key_env", "client_secret_env", "assertion_env", "id_token_env")
"""Parameters whose value is the name of an environment variable with a secret."""


def given_login(values: Mapping[str, Any]) -> LoginOptions:
    """Return the values of the `login_flags` options. Raises: DeskUserError."""

    def given_secret(name: str) -> Secret:
        flag = f"--{name.replace('_', '-')}"
        text = secret(values.get(f"{name}_env"), f"{flag}-env") or ""
        file = values.get(f"{name}_file") or ""
        if text and file:
            raise DeskUserError(f"{flag}-env and {flag}-file cannot be used together.")
        return Secret(text, str(Path(file).expanduser().absolute()) if file else "")

    options = LoginOptions(
        values.get("client_id") or "",
        given_secret("client_secret"),
        given_secret("client_key"),
        values.get("client_issuer") or "",
        values.get("client_metadata_url") or "",
        values.get("scope") or "",
        values.get("callback_port") or 0,
        bool(values.get("assume_pkce")),
        bool(values.get("client_credentials")),
        given_secret("assertion"),
        values.get("idp_token_url") or "",
        values.get("idp_client_id") or "",
        given_secret("id_token"),
    )
    if problem := options.problem():
        command = "mcpdesk login --help"
        hint = f"`{command}` lists the options of a login."
        raise DeskUserError(f"{problem[0].upper()}{problem[1:]}.", hint, next_command=command)
    return options


def reach_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for accessing a server to a command, which receives them as `reach`."""

    @click.option(
        "--mode",
        default="",
        metavar="NAME",
        help="Use only the tools of this mode. `modes` in mcp.json defines modes. Default: all tools.",
    )
    @click.option("--token-env", metavar="VAR", help="Environment variable with the bearer token to send.")
    @click.option(
        "--key-env", metavar="VAR", help="For a URL: environment variable with the API key to send."
    )
    @click.option(
        "--header",
        "headers",
        multiple=True,
        metavar="NAME=VALUE",
        help="For a URL: HTTP header to send. You can repeat this option.",
    )
    @click.option(
        "--account",
        default="",
        metavar="NAME",
        help="For a URL: login to use, named as in `mcpdesk login --account NAME`.",
    )
    @click.option(
        "--revision",
        type=click.Choice([*BY_NAME]),
        default=None,
        help="Use this protocol revision. Default: the newest that both sides support.",
    )
    @click.option(
        "--era",
        type=click.Choice([*ERAS]),
        default=None,
        help="Use the newest protocol revision of this era (handshake: 2025-11-25, stateless: 2026-07-28).",
    )
    @click.option(
        "--with",
        "packages",
        multiple=True,
        metavar="PACKAGE",
        help="For a Python file: package that it needs. You can repeat this option.",
    )
    @click.option(
        "--trust",
        is_flag=True,
        help="Use a configuration file without asking whether you trust its content.",
    )
    @login_flags(is_hidden=True)
    @wraps(function)
    def with_reach(*args: Any, **values: Any) -> Any:
        reach = given_reach(values)
        # Hosted code and its programs must not see these variables. A variable that has the name of a setting
        # therefore has no effect on that setting.
        for name in SECRET_VARIABLES:
            os.environ.pop(values[name] or "", None)
        other_values = {
            name: value for name, value in values.items() if name not in REACH_OPTIONS | LOGIN_FLAGS
        }
        return function(*args, reach=reach, **other_values)

    return with_reach


WATCH = click.option(
    "--watch",
    "watched",
    multiple=True,
    metavar="PATH",
    type=click.Path(exists=True, path_type=Path),
    help="For a program: restart it when this file, or a file in this folder, changes. You can repeat this "
    "option.",
)


REACH_OPTIONS = frozenset(
    {"mode", "token_env", "key_env", "headers", "revision", "era", "packages", "account", "trust"}
)
"""Names of the parameters of `reach_options`, except those of `login_flags`."""


def given_reach(values: Mapping[str, Any]) -> Reach:
    """Return the values of the `reach_options` options. Raises: DeskUserError."""
    return Reach(
        values.get("mode") or "",
        secret(values.get("token_env"), "--token-env"),
        secret(values.get("key_env"), "--key-env"),
        tuple(map(_header, values.get("headers") or ())),
        values.get("revision") or ERAS.get(values.get("era") or "", ""),
        tuple(values.get("packages") or ()),
        account_name(values.get("account") or ""),
        given_login(values),
        bool(values.get("trust")),
    )


def account_name(text: str) -> str:
    """Return the name of an account. Raises: DeskUserError for an invalid one."""
    if text and not _ACCOUNT_NAME.fullmatch(text):
        hint = "Use letters, digits and @ . _ + -, 64 at most."
        raise DeskUserError(f"--account: {text[:80]!r} is not a valid account name.", hint)
    return text


def _header(text: str) -> tuple[str, str]:
    """Parse a header. Raises: DeskUserError if it is invalid."""
    name, equals, value = text.partition("=")
    if not equals or not _HEADER_NAME.fullmatch(name) or not value.isprintable():
        raise DeskUserError(f"--header: {text[:80]!r} is not a header.", "Write NAME=VALUE.")
    return name, value


def secret(variable: str | None, flag: str) -> str | None:
    """Return the value of an environment variable. Raises: DeskUserError if it is not set."""
    if variable is None:
        return None
    value = os.environ.get(variable, "").strip()
    if not value:
        hint = f"Set it: {variable}=..."
        raise DeskUserError(f"{flag}: the environment variable {variable} is not set.", hint)
    return value


class RemarkLines:
    """Prints remarks about a server's messages, each once, up to a limit."""

    def __init__(self) -> None:
        self.remarks: list[Remark] = []
        """Printed remarks."""
        self._printed_texts = set[str]()

    def add(self, remark: Remark, request: Id | None = None) -> None:
        """Print a remark as one line, unless it was printed before."""
        if remark.text in self._printed_texts or len(self._printed_texts) == MAX_REMARKS:
            return
        self._printed_texts.add(remark.text)
        self.remarks.append(remark)
        print_message(f"warning: {clean(remark.text, newlines=False)}")
        if len(self._printed_texts) == MAX_REMARKS:
            print_message("warning: further remarks are not printed")


class ProgramLines:
    """Prints the output of a server program, except protocol messages.

    The log of a program is printed during connection only if the connection fails, because many servers log
    long complaints about the first request of the newest revision. If a program ends because of this request,
    it is started a second time. Lines of both runs are printed once.
    """

    def __init__(self) -> None:
        self.count = 0
        """Number of lines on stdout that are not messages."""
        self._pending_log: deque[str] | None = deque(maxlen=MAX_HELD_LINES)
        """Log of the current run, or None if lines are printed at once."""
        self._earlier_log: deque[str] | None = None
        """Log of an earlier run that ended during connection, or None."""
        self._stray_lines: list[str] = []
        """First lines on stdout of the current run."""
        self._earlier_stray_lines: list[str] = []
        """First lines on stdout of the earlier run."""

    def log(self, line: str) -> None:
        """Handle a line on stderr."""
        if self._pending_log is None:
            print_message(line)
        else:
            self._pending_log.append(line)

    def stray(self, line: bytes) -> None:
        """Handle a line on stdout that is not a message.

        Only some lines at the beginning of a run are printed. The very first line is left out, because a
        remark quotes it.
        """
        self.count += 1
        if len(self._stray_lines) == MAX_STRAY_LINES:
            return
        from mcpdesk.client.transport import excerpt

        text = excerpt(line)
        self._stray_lines.append(text)
        if self.count > 1 and text not in self._earlier_stray_lines:
            print_message(f"(stdout) {text}")

    def ended(self, reason: ProgramEnded) -> None:
        """Handle the end of a run. If it ends during connection, another run may follow."""
        if self._pending_log is not None:
            self._earlier_log = self._pending_log or self._earlier_log
            self._pending_log = deque(maxlen=MAX_HELD_LINES)
            self._earlier_stray_lines = self._stray_lines
            self._stray_lines = []

    def settle(self, is_connected: bool) -> None:
        """Print the retained log if the connection failed. Later lines are printed at once."""
        lines = self._pending_log or self._earlier_log or ()
        self._pending_log = None
        if not is_connected:
            for line in lines:
                print_message(line)


def open_connection(target: str, reach: Reach, *, is_name: bool = False) -> OpenConnection | None:
    """Return the open connection with the name or the server `target`, or None. With `is_name`, only names
    are compared.

    Raises: DeskUserError if the options of `reach` cannot be used with an open connection.
    """
    is_folder = os.path.isdir(target)  # each client of a folder has a mode and a token of its own
    has_options = reach.is_remote or (not is_folder and (bool(reach.mode) or reach.token is not None))
    connections = (
        feature.open_connection(target, has_options=has_options, is_name=is_name)
        for feature in features_with("open_connection")
    )
    return next((each for each in connections if each is not None), None)


def named_connection(name: str, reach: Reach) -> OpenConnection | None:
    """Return the open connection with this name, or None. Raises: DeskUserError."""
    if "://" in name or os.path.exists(name) or " " in name:
        return None
    return open_connection(name, reach, is_name=True)


def find_server(
    text: str,
    reach: Reach,
    ask: Callable[[InputVariable], str] | None = None,
    agree: Agree | None = None,
) -> Target:
    """Resolve the target of a command. `ask` and `agree` are passed to `find_target`. By default, they ask
    the person at the terminal.

    Raises: DeskUserError. For an unknown target, its hint names similar servers.
    """
    from mcpdesk.client.configs.variables import UnsetVariable
    from mcpdesk.client.targets import UnknownTarget, find_target

    try:
        return find_target(text, os.environ, ask or ask_input, agree or agreement(reach), reach.packages)
    except UnsetVariable as error:
        command = f"mcpdesk doctor {shlex.quote(text)}"
        hint = f"{error.hint} `{command}` lists the unset variables."
        raise DeskUserError(error.message, hint, next_command=command) from None
    except UnknownTarget as error:
        raise UnknownTarget(str(error), similar_servers(text) or error.hint) from None


def similar_servers(text: str) -> str:
    """Return a hint with the open connections and the servers of clients whose names are similar to a text.
    Empty if there are none.
    """
    from difflib import get_close_matches

    if "/" in text or ":" in text:
        return ""
    from mcpdesk.client.configs.program_names import shell_word
    from mcpdesk.client.discovery import discover

    names = [name for each in features_with("open_connection_names") for name in each.open_connection_names()]
    matches = [name for name in get_close_matches(text, names, n=3) if name != text]
    servers = [each for each in discover().servers if not each.is_shadowed]
    server_names = {each.server.name for each in servers}
    similar_names = [text] if text in server_names else get_close_matches(text, server_names, n=3)
    matches += [each.target for name in similar_names for each in servers if each.server.name == name]
    quoted_names = [shell_word(name) for name in dict.fromkeys(matches) if name.isprintable()]
    return f"Did you mean {' or '.join(quoted_names[:3])}?" if quoted_names else ""


def server_to_reach(text: str, reach: Reach) -> tuple[Target, Reach]:
    """Resolve the target of a command that makes a connection of its own. The name of an open connection is
    resolved to the server of that connection.

    Return the target with the options for the new connection. Raises: DeskUserError.
    """
    connection = named_connection(text, reach)
    return (find_server(text, reach), reach) if connection is None else connection.opened()


def folder_program(folder: Path, title: str, mode: str = "") -> CommandTarget:
    """Return the program that hosts a server folder in a process of its own, because the code of the folder
    may print on stdout.
    """
    from mcpdesk.client.targets import CommandTarget

    options = ("--mode", mode) if mode else ()
    command = (sys.executable, "-P", "-m", "mcpdesk", "stdio", "--alone", *options, str(folder))
    return CommandTarget(command, title=title)


def transport_to_open_connection(connection: OpenConnection, reach: Reach) -> tuple[ClientTransport, Reach]:
    """Return a transport to an open connection, and the options with which to use the transport.

    Raises: DeskUserError if the connection cannot be used.
    """
    if connection.folder is None:
        # In this revision, the process that keeps the connection can ask questions.
        return connection.transport(), Reach(revision="2025-06-18")
    from mcpdesk.client.unix_pipe import UnixPipe
    from mcpdesk.hosting.host_plan import effective_settings

    core = running_core(connection.folder, reach)
    if core is None:
        name = connection.name
        hint = f"Set the same environment as for `mcpdesk up`, or run `mcpdesk down {name}` and `mcpdesk up`."
        raise DeskUserError(f"The open connection {connection.name!r} cannot be used.", hint, CANNOT_CONNECT)
    settings = effective_settings({}, os.environ, connection.folder).settings
    return UnixPipe(core, str(connection.folder)), Reach(reach.mode, revision=settings.desk_revision)


def running_core(folder: Path, reach: Reach) -> socket | None:
    """Connect to the process that hosts a folder, or return None if no process can serve this command.

    If a process was found but cannot be used, the reason is printed on stderr. Raises: DeskUserError if the
    process refuses, or if a token is given but the server checks no tokens.
    """
    from mcpdesk.auth.principal import TOKEN_VARIABLE
    from mcpdesk.hosting.folder.manifest import read_manifest
    from mcpdesk.transports import pump

    environment = dict(os.environ)
    if reach.token is not None:
        environment[TOKEN_VARIABLE] = reach.token
        manifest = read_manifest(folder)
        if manifest.auth.jwt is None:
            raise needless_token(manifest.name)
    folder_name = str(folder)
    greeting = pump.greeting_line(folder_name, reach.mode, "mcpdesk", environment, understands_leave=False)
    try:
        return pump.connect_and_greet(folder_name, reach.mode, greeting)
    except pump.RefusedByDesk as refused:
        raise DeskUserError(str(refused).removeprefix(pump.REFUSAL.decode())) from None
    except OSError:  # other users can write to the sockets' folder; `stdio` also hosts the folder itself
        return None


def needless_token(server: str) -> DeskUserError:
    """Return the error for a token that is given although the server checks no tokens."""
    return DeskUserError(f"{server} does not accept tokens.", "Set auth.jwt in mcp.json to accept tokens.")


def ask_input(variable: InputVariable) -> str:
    """Ask the person at the terminal for an input of a configuration file. The value is not stored.

    Raises: DeskUserError if no person can be asked.
    """
    if not can_ask():
        if variable.default:
            return variable.default
        hint = "Type the command in a terminal, or write the value into the file."
        raise DeskUserError(
            f"${{input:{variable.name}}} must be typed in, but no terminal is attached.", hint
        )
    answer: str = click.prompt(
        clean(variable.description or variable.name, newlines=False),
        default=variable.default or None,
        hide_input=variable.is_secret,
        type=click.Choice(variable.options) if variable.options else str,
        err=True,
    )
    return answer


def agreement(reach: Reach, state: object = None) -> Agree:
    """Return a function that asks the person at the terminal before new content of a file is used.

    `state` is the value of --state-dir, or None. The function raises DeskUserError unless the person agrees.
    """

    def agree(config: ConfigFile) -> None:
        from mcpdesk.client.trust import TrustRefused, TrustStore, UntrustedFileError, describe_untrusted
        from mcpdesk.settings import resolve

        settings = resolve({"state_dir": state}, os.environ).settings
        store = TrustStore(settings.state_dir)
        if reach.trusts_files or settings.trust or store.is_trusted(config.path, config.sha256):
            return
        file = describe_untrusted(config)
        if not can_ask():
            raise UntrustedFileError(file)
        print_untrusted(file)
        if not click.confirm("Do you trust this content?", default=False, err=True):
            raise TrustRefused(f"{file.path} is not trusted: nothing was started.")
        store.trust(config.path, config.sha256)

    return agree


def print_untrusted(file: UntrustedFile) -> None:
    """Print on stderr what a file would start, connect to and read."""
    print_message(f"{file.path} starts programs that you did not type. With your rights and environment:")
    for line in file.lines:
        print_message(f"  {clean(line, newlines=False)}")


def can_ask(stdin_fd: int = 0) -> bool:
    """Return True if a person can be asked: they read stderr on a terminal and type into `stdin_fd`."""
    return os.isatty(stdin_fd) and is_terminal()


def with_hint(error: CallError, *, is_first: bool = False) -> DeskError:
    """Convert an error for reporting, with its exit code and a hint.

    `is_first` is True if the error was caused by the first message to the server.
    """
    from mcpdesk.client.hints import NO_TOKEN, UNKNOWN_PROTOCOL, error_hint, hint

    if isinstance(error, RpcError):
        advice = _token_hint(error) or error_hint(error.code, error.message, error.data)
        message = str(error) if is_first else error.message
        return RemoteProtocolError(
            error.code, message, error.data, advice or (UNKNOWN_PROTOCOL if is_first else "")
        )
    if isinstance(error, AuthorizationError):
        error.message = f"it requires a token, and getting one failed: {error.message}"
        return DeskUserError(str(error), error.hint or NO_TOKEN, CANNOT_CONNECT)
    message = str(error)
    if isinstance(error, InvalidAnswer) and error.excerpt and error.excerpt not in message:
        message = f"{message}. It sent: {error.excerpt}"
    from mcpdesk.recorder.masking import mask_text

    advice = hint(error, is_first=is_first)
    if error.target.startswith(("http://", "https://")) and mask_text(error.target) == error.target:
        advice = advice.replace("mcpdesk login URL", f"mcpdesk login {shlex.quote(error.target)}")
    return DeskUserError(message, advice, exit_code(error))


def _token_hint(error: RpcError) -> str:
    """Return a hint about the token that the server requires. Empty for other errors."""
    from mcpdesk.client.hints import scope_words

    scope = error.data.get("scope") if isinstance(error.data, dict) else None
    words = scope_words(tuple(scope.split())) if isinstance(scope, str) else ""
    return TOKEN_HINTS.get(error.code, "").format(words)


def server_folder(text: str) -> Path:
    """Return the folder that was given on the command line.

    Raises: DeskUserError if it is a URL, a file, or missing.
    """
    if "://" in text:
        raise DeskUserError(f"{text}: only a server folder can be hosted here.", "Name a folder.")
    path = Path(text).expanduser()
    if not path.exists():
        hint = "A server folder has tools/, resources/ or prompts/."
        raise DeskUserError(f"Folder {text!r} does not exist.", hint)
    if not path.is_dir():
        is_capture = path.suffix == ".jsonl"
        command = shlex.join(["mcpdesk", "open", text] if is_capture else ["mcpdesk", str(path.parent)])
        hint = f"Did you mean `{command}`{' to show a capture' if is_capture else ''}?"
        raise DeskUserError(f"{text!r} is a file, not a folder.", hint, next_command=command)
    return path.resolve()
