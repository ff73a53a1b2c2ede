"""Client of the commands that call a server. The server is a URL, or a folder or program that runs as long as
the command.

If a desk or `mcpdesk serve` hosts the folder, the client connects to its Unix socket. Any other folder is
hosted in this process while the command runs. Questions of tools are asked in the terminal, on stderr.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mcpdesk.cli.printing import CANNOT_CONNECT, TIMED_OUT, print_message
from mcpdesk.cli.reach import (
    ProgramLines,
    RemarkLines,
    can_ask,
    find_server,
    needless_token,
    open_connection,
    running_core,
    server_folder,
    transport_to_open_connection,
    with_hint,
)
from mcpdesk.client.flows import CallObserver
from mcpdesk.client.hints import hint
from mcpdesk.client.targets import CommandTarget, FolderTarget, UrlTarget
from mcpdesk.connect import blocking, connect
from mcpdesk.connect.connecting import open_within
from mcpdesk.errors import (
    CallError,
    ConnectTimeout,
    DeskUserError,
    ProtocolError,
    RemoteProtocolError,
    RpcError,
)
from mcpdesk.inbox.question import WAITING_TEXTS, Answer, Page, Question, QuestionState, link_warnings
from mcpdesk.plain_text import clean
from mcpdesk.protocol.catalogue.skill_entries import MAIN
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.transports.clean_terminal import is_terminal
from mcpdesk.upstream.target_transport import ProgramEvents, Reach

if TYPE_CHECKING:
    from mcpdesk.client.connection import AnswerQuestion, ServerConnection
    from mcpdesk.client.negotiation import Agreement
    from mcpdesk.client.transport import ClientTransport
    from mcpdesk.connect import Blocking
    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.hosting.host import Host
    from mcpdesk.inbox.inbox import Inbox
    from mcpdesk.link.local.desk_client import HostedDesk
    from mcpdesk.link.values import CatalogueItem
    from mcpdesk.protocol.reading.remark import Remark
    from mcpdesk.settings import Settings
    from mcpdesk.upstream.offers import Offer

T = TypeVar("T")
POLL_S = 0.1
"""Seconds between two checks for questions and progress."""
MIN_PROGRESS = 0.001
"""Progress below this is not printed as a number. Such small steps only show that a call continues."""
QUESTION_ON_DESK = (
    "mcpdesk: the question is shown on the desk that hosts this folder: press a there to answer. "
    "With --alone, it is asked here."
)
MAX_LINE_BYTES = 65_536
"""Maximum size in bytes of a typed answer."""
DECLINE = "!"
"""Beginning of a typed line that declines a question."""
QUESTION_HELP = f"{DECLINE} declines, with a reason if one follows; ctrl+c ends the call"
"""Help for the person who is asked."""
TIMEOUT_HINT = "--timeout allows more time, up to MCPDESK_CONNECT_TIMEOUT_S."
STDOUT_HINT = "It prints other text on stdout: a server must log to stderr, and use stdout for messages only."
PRINT_SOURCES = ("print", "stdout")
"""Sources of journal lines that contain output of a folder's code."""
PROBLEM_LEVELS = ("warning", "error", "critical")
"""Levels of journal lines that are printed, whatever their source is."""


def client(
    target: str,
    reach: Reach,
    *,
    watches: bool = False,
    connect_s: float | None = None,
    has_fixed_capabilities: bool = False,
    is_alone: bool = False,
) -> AbstractContextManager[CommandClient]:
    """Return a client of any server. A program runs as long as the block does.

    If another process already hosts a folder, the client connects to that process. Otherwise, or with
    `is_alone`, this process hosts the folder while the block runs, and prints the folder's output on stderr.

    If `mcpdesk up` keeps a connection to the server open, the client uses it, except with `is_alone`.

    With `watches`, log messages are requested, and a folder is reloaded when its files change. `connect_s`
    replaces a longer time limit of the setting for connecting. With `has_fixed_capabilities`, the client
    declares the same capabilities with and without a person at the terminal. Commands that list items use
    this, because servers may adapt their lists to the capabilities.

    Raises: DeskError if the server cannot be hosted, started or reached.
    """
    existing_connection = None if is_alone else open_connection(target, reach)
    if existing_connection is not None:
        from mcpdesk.hosting.host_plan import effective_settings

        settings = effective_settings({}, os.environ, existing_connection.folder).settings
        transport, reach = transport_to_open_connection(existing_connection, reach)
        folder = existing_connection.folder
        return _connected(transport, reach, settings, watches, connect_s, has_fixed_capabilities, folder)
    server_target = find_server(target, reach)
    if not isinstance(server_target, FolderTarget):
        from mcpdesk.settings import resolve

        settings = resolve({}, os.environ).settings
        return _connected(server_target, reach, settings, watches, connect_s, has_fixed_capabilities)
    if reach.is_remote:
        message = "Keys, headers, revisions and packages cannot be used with a folder."
        raise DeskUserError(message, "Use them with a URL, a command or a file.")
    from mcpdesk.hosting.host_plan import effective_settings

    folder = server_folder(target)
    settings = effective_settings({}, os.environ, folder).settings
    core_socket = None if is_alone else running_core(folder, reach)
    if core_socket is not None:
        from mcpdesk.client.unix_pipe import UnixPipe

        pipe = UnixPipe(core_socket, str(folder))
        reach = Reach(reach.mode, revision=settings.desk_revision)
        return _connected(pipe, reach, settings, watches, connect_s, has_fixed_capabilities, folder)
    return _hosted(folder, settings, reach, watches)


class Notification(NamedTuple):
    """Notification from a server. `time` is Unix time in seconds."""

    time: float
    method: str
    params: dict[str, Any]


class CommandClient:
    """Sends requests on the event loop of another thread. Asks the questions of tools at the terminal, on the
    calling thread.
    """

    def __init__(
        self,
        connection: ServerConnection,
        blocking_connection: Blocking[Any],
        questions: TerminalQuestions | None = None,
        unavailable: Callable[[], Sequence[CatalogueItem]] = tuple,
    ) -> None:
        """`blocking_connection` has the connection and its event loop.

        `questions` is None if there is no terminal.
        """
        self.unavailable = unavailable
        """Function that returns the items of the server that are not offered."""
        self._remarks = RemarkLines()
        connection.remark_listeners.append(self._remarks.add)
        self._connection = connection
        self._blocking_connection = blocking_connection
        self.desk_question_notice = ""
        """Message about questions that wait on the desk that runs the call, or an empty text."""
        self.output_fd = 1
        """Descriptor for printing results while the client is open. Hosted code cannot access it."""
        self._questions = questions
        self._notifications: SimpleQueue[Notification] = SimpleQueue()

    def remarks(self) -> list[dict[str, Any]]:
        """Return the faults found so far in the server's messages, as JSON values."""
        return [
            {"kind": str(each.kind), "text": each.text} | ({} if each.at is None else {"at": each.at})
            for each in list(self._remarks.remarks)
        ]

    def remark(self, remark: Remark) -> None:
        """Print a fault of the server's messages, and add it to the result of `remarks`."""
        self._remarks.add(remark)

    def request(self, method: str, params: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Return the result of one request.

        Raises: RemoteProtocolError for a JSON-RPC error; CallError if no answer arrives; DeskUserError on a
        timeout, or if the server requires a key or token.
        """
        progress = _ProgressLines(self.desk_question_notice) if is_terminal() else None
        work = self._connection.result(method, params, observer=progress)
        return self._run(work, method, timeout_s, progress)

    def unchecked_result(self, method: str, params: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Return the result of one request of any method, without validating it. Raises: like `request`."""

        async def run() -> dict[str, Any]:
            return (await self._connection.request(method, params, observer=progress)).value()

        progress = _ProgressLines(self.desk_question_notice) if is_terminal() else None
        return self._run(run(), method, timeout_s, progress)

    def notify(self, method: str, params: dict[str, Any], timeout_s: float) -> None:
        """Send a notification. Raises: DeskUserError if it cannot be sent, or if the server rejects it."""
        self._run(self._connection.notify(method, params), method, timeout_s)

    def request_all(
        self, method: str, key: str, timeout_s: float, faults: list[str] | None = None
    ) -> list[dict[str, Any]]:
        """Return the items of all pages of a list. The result is empty if the server does not support this
        list.

        Invalid items are omitted, and the reasons are added to `faults`.
        """
        list_faults = [] if faults is None else faults
        try:
            return self._run(self._connection.list_all(method, key, list_faults), method, timeout_s)
        except RemoteProtocolError as error:
            if error.code == ErrorCode.METHOD_NOT_FOUND:
                return []
            raise

    def skills(self, timeout_s: float, faults: list[str]) -> list[dict[str, Any]]:
        """Return the entries of the server's skills. Later reads of their files are verified.

        Invalid entries are omitted, and the reasons are added to `faults`.
        """
        return self._run(self._connection.skills.listed(faults), "skills/list", timeout_s)

    def verify_skill(self, uri: str, timeout_s: float) -> list[str]:
        """Load the entries of the skill that a URI belongs to. Later reads of the skill's files are verified.

        Return the faults of the list of skills. Do nothing for a URI that cannot belong to a skill. Raises:
        InvalidAnswer if the entry of the skill is invalid; the errors of `request`.
        """
        if not uri.startswith("skill://") and not uri.endswith(MAIN):
            return []
        faults: list[str] = []

        async def load_entries() -> None:
            if any(each["uri"] == uri for each in await self._connection.skills.listed(faults)):
                return
            if uri.endswith(MAIN) and await self._connection.skills.is_offered():
                with suppress(RpcError):  # the URI is an ordinary resource
                    await self._connection.skills.entry(uri)

        self._run(load_entries(), "skills/list", timeout_s)
        return faults

    def offers(self, timeout_s: float) -> tuple[Agreement, tuple[Offer, ...], tuple[str, ...]]:
        """Return the agreement, the server's items, and the faults of its lists."""
        from mcpdesk.upstream.offers import read_offers

        async def read() -> tuple[Agreement, tuple[Offer, ...], tuple[str, ...]]:
            agreement = await self._connection.open()
            return agreement, *await read_offers(self._connection, agreement.capabilities, asks_all=True)

        return self._run(read(), "The lists", timeout_s)

    def collect_notifications(self) -> None:
        """Keep every notification from now on, for `notifications`."""
        self._connection.listeners.append(
            lambda method, params: self._notifications.put(Notification(time.time(), method, params))
        )

    def notifications(self, uris: Sequence[str]) -> Iterator[Notification]:
        """Subscribe to all notifications, including updates of the given resources.

        Yield all notifications since `collect_notifications` until the subscription ends and cannot be
        renewed. Messages on stderr report when the subscription starts, is interrupted, and is renewed.

        Raises: DeskError like `request`.
        """
        from mcpdesk.client.subscriptions.all_notifications import follow_notifications

        subscription = follow_notifications(
            self._connection,
            uris,
            lambda: print_message("watching; ctrl+c ends it"),
            lambda reason: print_message(f"the subscription ended, and is renewed: {clean(reason)}"),
            lambda: print_message("watching again; notifications may have been missed"),
            lambda uri, reason: print_message(f"{clean(uri)} cannot be watched again: {clean(reason)}"),
        )
        queue = self._notifications
        future = self._blocking_connection.start(subscription)
        try:
            while not (future.done() and queue.empty()):
                if self._questions is not None:
                    self._questions.ask_waiting()
                with suppress(Empty):
                    yield queue.get(timeout=POLL_S)
            future.result()
        except CallError as error:
            raise with_hint(error) from None
        finally:
            future.cancel()

    def _run(
        self,
        work: Coroutine[Any, Any, T],
        method: str,
        timeout_s: float,
        progress: _ProgressLines | None = None,
    ) -> T:
        """Run `work` on the event loop, and wait for its result. Raises: like `request`."""
        future = self._blocking_connection.start(work)
        try:
            return self._wait(future, timeout_s, progress)
        except TimeoutError:
            output = self._connection.unexpected_bytes
            message = f"{method}: no answer within {timeout_s:g} s{f': {output}' if output else ''}."
            raise DeskUserError(message, "See --timeout.", TIMED_OUT) from None
        except CallError as error:
            raise with_hint(error) from None
        finally:
            future.cancel()

    def _wait(self, future: Future[T], timeout_s: float, progress: _ProgressLines | None) -> T:
        """Wait for the result. In the meantime ask the questions of tools, and print progress.

        Raises: TimeoutError after `timeout_s`, not counting the time that the person needs for answers.
        """
        end = time.monotonic() + timeout_s
        while True:
            try:
                return future.result(min(POLL_S, max(0.0, end - time.monotonic())))
            except TimeoutError:
                if future.done() or time.monotonic() >= end:
                    raise
            asked_s = self._questions.ask_waiting() if self._questions is not None else 0.0
            end += asked_s
            if progress is not None:
                progress.print(was_asked=asked_s > 0)


class _ProgressLines(CallObserver):
    """Prints the latest progress of a call if it has changed."""

    def __init__(self, desk_question_notice: str = "") -> None:
        self._latest = self._printed = ""
        self._desk_question_notice = desk_question_notice
        """Message that follows the first progress about a question on the desk."""

    def progressed(self, progress: float, total: float | None, message: str) -> None:
        """Store the latest progress."""
        self._latest = progress_line(progress, total, message)

    def print(self, was_asked: bool) -> None:
        """Print the latest progress if it is new. After a question, print nothing, because this progress only
        reported the wait for the answer.
        """
        if self._latest != self._printed and not was_asked:
            print_message(self._latest)
            if self._desk_question_notice and self._latest.startswith(tuple(WAITING_TEXTS.values())):
                print_message(self._desk_question_notice)
                self._desk_question_notice = ""
        self._printed = self._latest


def progress_line(progress: float, total: float | None, message: str) -> str:
    """Format progress, such as `3/10 reading`. An amount below `MIN_PROGRESS` is left out."""
    if total is None and 0 < progress < MIN_PROGRESS and message:
        return clean(message, newlines=False)
    total_text = f"/{total:g}" if total is not None else ""
    return f"{progress:g}{total_text} {clean(message, newlines=False)}".rstrip()


def _unavailable(folder: Path, mode: str) -> list[CatalogueItem]:
    """Return the items of a folder that are not offered. The folder's code is imported, but no tool is
    called.
    """
    from mcpdesk.link.local.local_catalogue import ServerCatalogue
    from mcpdesk.runtime.core_process import loaded_host

    with loaded_host(folder) as host:
        endpoint = host.endpoint("", mode)
        assert endpoint is not None
        return [each for each in ServerCatalogue(endpoint.server).catalogue().items if not each.definition]


@contextmanager
def _connected(
    target: UrlTarget | CommandTarget | ClientTransport,
    reach: Reach,
    settings: Settings,
    watches: bool,
    connect_s: float | None,
    has_fixed_capabilities: bool,
    folder: Path | None = None,
) -> Iterator[CommandClient]:
    """Yield a client of a server outside this process.

    If the target is a process that hosts a folder, `folder` is this folder. It is reported to the server as
    the only root. Raises: DeskUserError for an invalid URL.
    """
    from mcpdesk.client.person_answers import PersonAnswers
    from mcpdesk.client.roots import folder_roots
    from mcpdesk.inbox.inbox import Inbox
    from mcpdesk.version import __version__

    inbox = Inbox()
    program_lines = ProgramLines()
    handlers: dict[str, AnswerQuestion] = {}
    opening = connect(
        target,
        {"name": "mcpdesk", "version": __version__},
        reach=reach,
        answers=lambda: handlers,
        on_log=ProgramEvents(program_lines.log, program_lines.stray, program_lines.ended),
        log_level="debug" if watches else None,
    )
    with blocking(opening) as connection:
        answers = PersonAnswers(
            clean(connection.server.target),
            inbox,
            lambda: settings.question_timeout_ms / 1000,
            lambda: folder_roots([] if folder is None else [folder]),
        )
        person_handlers = {"elicitation/create": answers.elicit, "sampling/createMessage": answers.sample}
        if folder is not None:
            handlers.update(answers.offered())  # without a person, the only capability is roots
        if can_ask():
            handlers.update(person_handlers)
        elif has_fixed_capabilities:
            handlers.update(dict.fromkeys(person_handlers, _refuse))
        questions = _terminal_questions(inbox, connection.loop.call_soon_threadsafe, 0)
        client = CommandClient(connection.server, connection, questions)
        if folder is not None:
            client.desk_question_notice = QUESTION_ON_DESK
            client.unavailable = partial(_unavailable, folder, reach.mode)
        if watches:
            client.collect_notifications()
        _open(connection, connect_s, settings.connect_timeout_s, program_lines)
        yield client


async def _refuse(params: dict[str, Any], subject: str) -> dict[str, Any]:
    """Refuse a question because no person can be asked. Raises: ProtocolError."""
    raise ProtocolError(ErrorCode.METHOD_NOT_FOUND, "No person can answer here")


def _open(
    connection: Blocking[ServerConnection],
    requested_s: float | None,
    setting_s: float,
    program_lines: ProgramLines,
) -> None:
    """Connect. Raises: DeskUserError if the server cannot be reached, or does not answer in time."""
    limit_s = setting_s if requested_s is None else min(requested_s, setting_s)
    is_connected = False
    try:
        connection.run(open_within(connection.server, limit_s))
        is_connected = True
    except ConnectTimeout as error:
        advice = hint(error) if limit_s == setting_s else TIMEOUT_HINT
        if program_lines.count:
            advice = STDOUT_HINT
        raise DeskUserError(f"{error}.", advice, CANNOT_CONNECT) from None
    except CallError as error:
        raise with_hint(error, is_first=True) from None
    finally:
        program_lines.settle(is_connected)


@contextmanager
def _hosted(folder: Path, settings: Settings, reach: Reach, watches: bool) -> Iterator[CommandClient]:
    """Yield a client of a server folder. Its calls use the token of `reach` or `settings`, if there is one.
    Output of the folder's code goes to stderr.

    Raises: DeskError if the folder cannot be hosted, or rejects the token.
    """
    from mcpdesk.client.roots import folder_roots
    from mcpdesk.connect.in_process import lone_host
    from mcpdesk.hosting.core_loop.core_thread import loop_factory, run
    from mcpdesk.link.local.desk_client import hosted_desk
    from mcpdesk.link.local.local_catalogue import ServerCatalogue
    from mcpdesk.protocol.revisions import BY_NAME
    from mcpdesk.runtime.core_process import capture_output

    host = lone_host(folder, watch=watches, mode=reach.mode, is_brief=not watches)
    opening = hosted_desk(host, lambda: folder_roots([folder]), BY_NAME[settings.desk_revision])
    # The thread of the loop also imports the folder, because some objects, such as a connection of sqlite3,
    # can be used only on the thread that created them.
    on_loop = partial(run, factory=loop_factory(host))
    with capture_output(host, "wire") as descriptors, ExitStack() as exit_stack:
        exit_stack.callback(print_stray_output, host)
        connection = exit_stack.enter_context(blocking(opening, run=on_loop))
        desk, endpoint = connection.server, connection.server.endpoint
        if reach.token is not None:
            _use_token(desk, endpoint, reach.token)
        elif settings.token and endpoint.access.verifier is not None:
            _use_token(desk, endpoint, settings.token)
        catalogue = ServerCatalogue(endpoint.server)
        client = CommandClient(
            desk.server,
            connection,
            _terminal_questions(host.inbox, host.call_soon, descriptors.stdin_fd),
            lambda: [item for item in catalogue.catalogue().items if not item.definition],
        )
        client.output_fd = descriptors.stdout_fd
        if watches:
            client.collect_notifications()
        earlier_callbacks = _waiting_callbacks(host)
        yield client
        if new_count := len(_waiting_callbacks(host) - earlier_callbacks):
            print_message(_waiting_callbacks_message(host, folder, new_count))


def _use_token(desk: HostedDesk, endpoint: HostedEndpoint, token: str) -> None:
    """Use the token for the desk's calls.

    Raises: DeskUserError if the token is invalid, or if the server checks no tokens.
    """
    if endpoint.access.verifier is None:
        raise needless_token(endpoint.name)
    try:
        desk.token.give(token).result()
    except ValueError as reason:
        message = f"The token is not valid for {endpoint.name}: {reason}."
        raise DeskUserError(message, "See --token-env.", CANNOT_CONNECT) from None


def _waiting_callbacks(host: Host) -> set[int]:
    """Return the ids of a host's callbacks that have not been called yet."""
    server_state = host.endpoints()[0].server.hosted
    if server_state is None or not server_state.has_created("callbacks"):
        return set()
    return {each.id for each in server_state.callbacks.snapshot if each.due is not None}


def _waiting_callbacks_message(host: Host, folder: Path, count: int) -> str:
    """Return a message about `count` callbacks that are scheduled but will not run in this process."""
    clause = f"mcpdesk: {count} {'callbacks wait' if count > 1 else 'callback waits'} in the state folder"
    if other_pids := host.peers.pids(host.endpoints()[0].name):
        return f"{clause}; process {min(other_pids)}, which also hosts {folder}, fires those that are due"
    return f"{clause} until a process hosts {folder}: the desk, `mcpdesk serve` or a client over stdio"


def _terminal_questions(
    inbox: Inbox, run: Callable[[Callable[[], object]], object], stdin_fd: int
) -> TerminalQuestions | None:
    """Return the object that asks the person at this terminal, or None if there is no terminal."""
    if not can_ask(stdin_fd):
        return None
    questions = TerminalQuestions(inbox, run, stdin_fd)
    questions.register_person()
    return questions


def print_stray_output(host: Host) -> None:
    """Print the output of the folder's code, and warnings about the folder, on stderr."""
    for line in host.journal.lines():
        if line.source in PRINT_SOURCES or line.level in PROBLEM_LEVELS:
            location = f"{line.where}: " if line.where else ""
            print_message(f"{location}{line.text}")


class AnswerDeclined(Exception):
    """The person declined to answer. The text is their reason, if any."""


class TerminalQuestions:
    """Asks the person at a terminal the questions of an inbox. The inbox may belong to another thread."""

    def __init__(self, inbox: Inbox, run: Callable[[Callable[[], object]], object], terminal_fd: int) -> None:
        """`run` schedules a function on the inbox's thread. `terminal_fd` is the descriptor for input."""
        self._inbox = inbox
        self._run = run
        self._fd = terminal_fd

    def register_person(self) -> None:
        """Register the person with the inbox. Calls that begin earlier cannot ask questions."""

        def register() -> None:
            self._inbox.audience += 1

        self._run_and_wait(register)

    def ask_waiting(self) -> float:
        """Ask the waiting questions one after another. Return the seconds that this took.

        Raises: KeyboardInterrupt on ctrl+c.
        """
        start = time.monotonic()
        questions = self._waiting_questions()
        for question in questions:
            self._ask(question)
        return time.monotonic() - start if questions else 0.0

    def _ask(self, question: Question) -> None:
        print_message(f"{question.asker} asks ({QUESTION_HELP})")
        try:
            answers = [self._ask_page(question, page) for page in question.pages]
        except AnswerDeclined as declined:
            reason = str(declined)
            self._run_and_wait(lambda: self._inbox.decline(question.id, reason, "the terminal"))
        except TimeoutError:
            print_message("The question no longer needs an answer.")
        else:
            self._run_and_wait(lambda: self._inbox.answer(question.id, answers, "the terminal"))

    def _run_and_wait(self, function: Callable[[], object]) -> None:
        """Run a function on the inbox's thread and wait for it to finish."""
        is_done = threading.Event()

        def run() -> None:
            try:
                function()
            finally:
                is_done.set()

        self._run(run)
        is_done.wait()

    def _waiting_questions(self) -> list[Question]:
        """Return the waiting questions, oldest first."""
        return [each for each in self._inbox.questions() if each.state is QuestionState.WAITING]

    def _ask_page(self, question: Question, page: Page) -> Answer:
        """Ask one page until the answer is valid.

        Raises: AnswerDeclined; TimeoutError if the question has ended.
        """
        from mcpdesk.inbox.answers import problem

        for line in page_lines(page):
            print_message(line)
        while True:
            line = self._read_line(question).strip()
            if line.startswith(DECLINE):
                raise AnswerDeclined(line[1:].strip())
            answer = read_answer(page, line)
            if answer is None:
                raise AnswerDeclined
            if not (fault := problem(page, answer)):
                return answer
            print_message(f"  {fault}")

    def _read_line(self, question: Question) -> str:
        """Read a line from the person.

        Raises: AnswerDeclined at the end of input; TimeoutError if the question has ended.
        """
        os.write(2, b"> ")
        while not select.select([self._fd], [], [], POLL_S)[0]:
            if question.id not in [each.id for each in self._waiting_questions()]:
                os.write(2, b"\n")
                raise TimeoutError
        data = os.read(self._fd, MAX_LINE_BYTES)
        if not data:
            raise AnswerDeclined
        return data.decode("utf-8", "replace")


def page_lines(page: Page) -> list[str]:
    """Return a page as lines, with its options numbered."""
    lines = [f"[{page.header}] {page.question}" if page.header else page.question]
    lines += [page.detail] if page.detail else []
    lines += [page.link, *link_warnings(page.link), "Open it yourself, then type y"] if page.link else []
    for number, option in enumerate(page.options, 1):
        lines.append(f"  {number}) {option.label}{f': {option.description}' if option.description else ''}")
    if page.options:
        answer_form = "numbers, like 1,3" if page.multi_select else "a number"
        lines.append(f"Type {answer_form}{', or your own words' if page.own_words else ''}.")
    default = " ".join((*page.default.selected, page.default.other)).strip()
    if default:
        lines.append(f"An empty line means: {default}")
    elif not page.is_required and not page.link:
        lines.append("An empty line skips it.")
    return [clean(line) for line in lines]


def read_answer(page: Page, line: str) -> Answer | None:
    """Convert a typed line to an answer. Return None if a link was not accepted."""
    if page.link:
        return Answer() if line.casefold() in ("y", "yes") else None
    if not line:
        return page.default
    labels = [option.label for option in page.options]
    labels_by_number = {str(number): label for number, label in enumerate(labels, 1)}
    parts = line.replace(",", " ").split()
    if all(part in labels_by_number for part in parts):
        return Answer(tuple(dict.fromkeys(labels_by_number[part] for part in parts)))
    matching_label = next((label for label in labels if label.casefold() == line.casefold()), None)
    return Answer((matching_label,)) if matching_label is not None else Answer((), line)
