"""Where a client's `mcpdesk stdio FOLDER` and the desk that hosts the folder find each other.

The place follows from the user, from the folder's identity on disk, and from the state folder where one was
chosen: clients start their servers with a stripped environment, from any working folder, and name the same
folder in different ways. A core that serves one client over pipes listens beside that place: a connection
there only means that a desk has started. Every core that uses the state files of the folder listens there as
well, for the others that do. Imports little of the standard library and nothing else, because a
client waits for it.
"""

from __future__ import annotations

import os
import socket
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    AnyPath: TypeAlias = str | os.PathLike[str]

BACKLOG = 64
STATE_VARIABLE = "MCPDESK_STATE_DIR"
USUAL_STATE = (
    "~/Library/Application Support/mcpdesk" if sys.platform == "darwin" else "~/.local/state/mcpdesk"
)
SWEPT = 256
"""The most entries checked when a core starts."""
CONNECT_TIMEOUT_S = 2.0
"""How long to wait for a desk whose backlog is full; a stuck one still accepts into its backlog."""


class UntrustedFolder(OSError):
    """Other users can write to the folder of meeting points, so nothing in it can be trusted."""


def runtime_folder() -> str:
    """The folder of this user's meeting points, which need not exist yet."""
    return f"/tmp/mcpdesk-{os.getuid()}"


def meeting_point(folder: AnyPath, state: str | None = None) -> str:
    """The Unix socket on which a desk that hosts `folder` listens.

    `state` is the state folder that was chosen, empty for none; None: what the environment says. Raises:
    OSError when the folder cannot be looked at.
    """
    identity = os.stat(folder)
    mark = state_mark(os.environ.get(STATE_VARIABLE, "") if state is None else state)
    return f"{runtime_folder()}/{identity.st_dev:x}-{identity.st_ino:x}{mark}.sock"


def state_mark(state: str) -> str:
    """A suffix that keeps programs with different state folders apart; empty for the usual one."""
    if not state:
        return ""
    path = os.path.realpath(os.path.expanduser(state))
    if path == os.path.realpath(os.path.expanduser(USUAL_STATE)):
        return ""
    from binascii import crc32

    return f"-{crc32(os.fsencode(path)):08x}"


def waiting_point(folder: AnyPath, state: str | None = None) -> str:
    """The Unix socket on which this process hears of desks that begin to host `folder`. Raises: OSError."""
    return f"{meeting_point(folder, state).removesuffix('.sock')}.{os.getpid()}.lone"


def state_point(folder: AnyPath, state: str) -> str:
    """The Unix socket on which this process hears of others that use the state files of `folder`.

    `state` is their state folder. Raises: OSError.
    """
    return f"{meeting_point(folder, state).removesuffix('.sock')}.{os.getpid()}.state"


def state_points(folder: AnyPath, state: str) -> dict[int, str]:
    """The sockets of other living processes that use the state files of `folder`, by process id.

    Raises: UntrustedFolder; OSError.
    """
    start = os.path.basename(meeting_point(folder, state)).removesuffix("sock")
    runtime = runtime_folder()
    if not os.path.lexists(runtime):
        return {}
    check_private(runtime)
    found: dict[int, str] = {}
    for name in os.listdir(runtime):
        number = name.removeprefix(start).removesuffix(".state")
        is_ours = f"{start}{number}.state" == name and number.isdigit()
        if is_ours and int(number) != os.getpid() and not is_stale(f"{runtime}/{name}"):
            found[int(number)] = f"{runtime}/{name}"
    return found


def attach_point(state: str) -> str:
    """The Unix socket on which this process waits for screens; `state` as for `meeting_point`."""
    return f"{runtime_folder()}/{os.getpid()}{state_mark(state)}.attach"


def attach_points(state: str | None = None) -> list[str]:
    """The sockets of all cores of this user a screen can be attached to, with a chosen state folder only its
    own. Raises: UntrustedFolder; OSError.
    """
    runtime = runtime_folder()
    if not os.path.lexists(runtime):
        return []
    check_private(runtime)
    sweep(runtime)
    mark = state_mark(os.environ.get(STATE_VARIABLE, "") if state is None else state)
    return sorted(f"{runtime}/{name}" for name in os.listdir(runtime) if name.endswith(f"{mark}.attach"))


def announce_desk(folder: AnyPath, state: str | None = None) -> int:
    """Tell every core that serves a single client of `folder` that a desk has started; returns how many."""
    point = meeting_point(folder, state)
    start = os.path.basename(point).removesuffix("sock")
    runtime = os.path.dirname(point)
    waiting = [name for name in os.listdir(runtime) if name.startswith(start) and name.endswith(".lone")]
    return sum(not is_stale(f"{runtime}/{name}") for name in waiting)


def private_folder() -> str:
    """Create the runtime folder if need be, and insist that only this user can enter it.

    Raises: UntrustedFolder; OSError when it cannot be created.
    """
    path = runtime_folder()
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        check_private(path)
    return path


def fallback_socket(name: str) -> str:
    """Where HTTP is served when TCP is not permitted: among the meeting points, else beside their folder."""
    try:
        return f"{private_folder()}/http-{name}.sock"
    except OSError:
        return f"/tmp/mcpdesk-{name}.sock"


def check_private(path: str) -> None:
    """Refuse a link, somebody else's folder, and one that others may enter.

    Raises: UntrustedFolder; FileNotFoundError when there is none.
    """
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise UntrustedFolder(f"{path} is not a folder")
    if found.st_uid != os.getuid():
        raise UntrustedFolder(f"{path} belongs to another user ({found.st_uid})")
    if found.st_mode & 0o077:
        raise UntrustedFolder(f"{path} is open to other users (mode {found.st_mode & 0o777:o}; chmod 700 it)")


def find_desk(folder: AnyPath, state: str | None = None) -> socket.socket | None:
    """Connect to the desk that hosts `folder`; None when nobody does.

    Raises: UntrustedFolder; OSError when the folder does not exist.
    """
    if not hasattr(socket, "AF_UNIX"):
        return None
    point = meeting_point(folder, state)
    try:
        check_private(runtime_folder())
    except FileNotFoundError:
        return None
    return connect(point)


class MeetingSocket:
    """A Unix socket we listen on: `listener` is bound and listening, `path` is its entry on disk."""

    def __init__(self, path: str, listener: socket.socket) -> None:
        self.path = path
        self.listener = listener
        self._inode = os.stat(path).st_ino

    def withdraw(self) -> None:
        """Remove the entry, unless another process has replaced it."""
        try:
            if os.stat(self.path).st_ino == self._inode:
                os.unlink(self.path)
        except FileNotFoundError:
            pass

    def leave(self) -> None:
        """Remove the entry and stop listening."""
        self.withdraw()
        self.listener.close()


def occupy(folder: AnyPath, state: str | None = None) -> MeetingSocket | None:
    """Listen at the meeting point of `folder`; None when a living core already does.

    Raises: UntrustedFolder; OSError when the folder does not exist or nothing can be created.
    """
    point = meeting_point(folder, state)
    sweep(private_folder())
    return listen(point)


def sweep(runtime: str) -> None:
    """Remove the meeting points that killed cores left behind."""
    with _Locked(runtime):
        for name in os.listdir(runtime)[:SWEPT]:
            point = f"{runtime}/{name}"
            if _is_point(name) and is_stale(point):
                _clear(point)


def listen(point: str) -> MeetingSocket | None:
    """Listen on the Unix socket `point`, for this user only; None when somebody living already does.

    A stale entry is cleared only after a connect to it failed, and under a lock, so that two cores that start
    at once cannot clear each other's. Raises: OSError; FileExistsError when `point` is no socket.
    """
    with _Locked(os.path.dirname(point) or "."):
        return _take(point)


class _Locked:
    """A folder, for one process at a time."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        import fcntl

        self._handle = os.open(self._folder, os.O_RDONLY)
        fcntl.flock(self._handle, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)


def _is_point(name: str) -> bool:
    place, _, kind = name.partition(".")
    numbers = place.split("-")
    is_ours = kind in ("sock", "attach", "tap") or kind.endswith((".lone", ".state"))
    lengths = (1, 2) if kind in ("attach", "tap") else (2, 3)
    return is_ours and len(numbers) in lengths and not set("".join(numbers)) - set("0123456789abcdef")


def is_stale(point: str) -> bool:
    """Whether nobody listens there any more. Does not wait for one that is busy."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        try:
            connection.connect(point)
        except ConnectionRefusedError:  # said of a plain file, too
            return stat.S_ISSOCK(os.lstat(point).st_mode)
        except OSError:
            return False
    return False


def _take(point: str) -> MeetingSocket | None:
    if (living := connect(point)) is not None:
        living.close()
        return None
    _clear(point)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            listener.bind(point)
        finally:
            os.umask(before)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return MeetingSocket(point, listener)


def _clear(point: str) -> None:
    try:
        found = os.lstat(point)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(f"{point} is in the way: it is not a socket")
    os.unlink(point)


def connect(point: str) -> socket.socket | None:
    """A connection to whoever of this user listens at `point`, or None."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(CONNECT_TIMEOUT_S)
    try:
        connection.connect(point)
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except OSError:
        connection.close()
        raise
    if peer_credentials(connection)[1] not in (None, os.getuid()):
        connection.close()
        return None
    connection.settimeout(None)
    return connection


def peer_credentials(connection: socket.socket) -> tuple[int | None, int | None]:
    """Process id and user id of the other side, as the kernel vouches for them; None where it cannot say."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None, None
    credentials = connection.getsockopt(socket.SOL_SOCKET, option, 12)
    pid, uid = (int.from_bytes(credentials[at : at + 4], sys.byteorder) for at in (0, 4))
    return pid, uid


def process_name(pid: int) -> str:
    """What the process calls itself (`claude`, `node`); empty where the system does not tell."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as comm:
            return comm.read().strip()
    except OSError:
        return ""
