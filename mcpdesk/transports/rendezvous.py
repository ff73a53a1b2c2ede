"""Unix sockets on which `mcpdesk stdio FOLDER` finds the desk that hosts the folder.

The path of the socket depends on the user, on the identity of the folder on disk, and on the state folder if
the user chose one. It cannot depend on the environment, the working directory or the spelling of the path,
because clients differ in these. There are two more kinds of sockets. A waiting point is the socket on which a
core that serves only one client is notified when a desk starts. A state point is the socket on which a core
is notified by other cores that use the same state files. Because a client waits until the socket is found,
this module imports only a few modules of the standard library.
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

HAS_SOCKETS = hasattr(socket, "AF_UNIX")
"""False on Windows, where Python has no Unix sockets. Processes there cannot find each other."""
LISTEN_BACKLOG = 64
STATE_VARIABLE = "MCPDESK_STATE_DIR"
USUAL_STATE = (
    "~/Library/Application Support/mcpdesk" if sys.platform == "darwin" else "~/.local/state/mcpdesk"
)
MAX_CHECKED_FILES = 256
"""Maximum number of files that are checked for sockets of killed cores when a core starts."""
CONNECT_TIMEOUT_S = 2.0
"""Seconds to wait until a desk accepts the connection. Only a full backlog delays this."""


class UntrustedFolder(OSError):
    """Other users can write to the runtime folder, so its sockets cannot be trusted."""


def runtime_folder() -> str:
    """Return the folder for this user's sockets. It may not exist yet."""
    return f"/tmp/mcpdesk-{os.getuid()}"


def folder_socket(folder: AnyPath, state: str | None = None) -> str:
    """Return the path of the socket on which a desk that hosts `folder` listens.

    `state` is the chosen state folder, "" for the default one, or None to read the environment.

    Raises: OSError if the folder cannot be accessed.
    """
    status = os.stat(folder)
    mark = state_mark(os.environ.get(STATE_VARIABLE, "") if state is None else state)
    return f"{runtime_folder()}/{status.st_dev:x}-{status.st_ino:x}{mark}.sock"


def state_mark(state: str) -> str:
    """Return a suffix for a chosen state folder, or "" for the default one."""
    if not state:
        return ""
    path = os.path.realpath(os.path.expanduser(state))
    if path == os.path.realpath(os.path.expanduser(USUAL_STATE)):
        return ""
    from binascii import crc32

    return f"-{crc32(os.fsencode(path)):08x}"


def waiting_point(folder: AnyPath, state: str | None = None) -> str:
    """Return the path of the socket on which this process is notified of desks that start to host `folder`.

    Raises: OSError.
    """
    return f"{folder_socket(folder, state).removesuffix('.sock')}.{os.getpid()}.lone"


def state_point(folder: AnyPath, state: str) -> str:
    """Return the path of the socket on which this process is notified of changed state files of `folder`.

    `state` is the state folder. Raises: OSError.
    """
    return f"{folder_socket(folder, state).removesuffix('.sock')}.{os.getpid()}.state"


def state_points(folder: AnyPath, state: str) -> dict[int, str]:
    """Return the state points of other running processes for `folder`, by process id.

    Raises: UntrustedFolder; OSError.
    """
    prefix = os.path.basename(folder_socket(folder, state)).removesuffix("sock")
    runtime = runtime_folder()
    if not os.path.lexists(runtime):
        return {}
    check_private(runtime)
    pids: dict[int, str] = {}
    for name in os.listdir(runtime):
        number = name.removeprefix(prefix).removesuffix(".state")
        is_state_point = f"{prefix}{number}.state" == name and number.isdigit()
        if is_state_point and int(number) != os.getpid() and not is_stale(f"{runtime}/{name}"):
            pids[int(number)] = f"{runtime}/{name}"
    return pids


def attach_point(state: str) -> str:
    """Return the path of the socket on which this process waits for screens."""
    return f"{runtime_folder()}/{os.getpid()}{state_mark(state)}.attach"


def attach_points(state: str | None = None) -> list[str]:
    """Return the sockets of all cores of this user that a screen can attach to.

    If a state folder is chosen, only cores that use it are returned. Raises: UntrustedFolder; OSError.
    """
    runtime = runtime_folder()
    if not os.path.lexists(runtime):
        return []
    check_private(runtime)
    sweep(runtime)
    mark = state_mark(os.environ.get(STATE_VARIABLE, "") if state is None else state)
    return sorted(f"{runtime}/{name}" for name in os.listdir(runtime) if name.endswith(f"{mark}.attach"))


def announce_desk(folder: AnyPath, state: str | None = None) -> int:
    """Tell cores that host `folder` for only one client that a desk has started. Return their number."""
    point = folder_socket(folder, state)
    prefix = os.path.basename(point).removesuffix("sock")
    runtime = os.path.dirname(point)
    names = [name for name in os.listdir(runtime) if name.startswith(prefix) and name.endswith(".lone")]
    return sum(not is_stale(f"{runtime}/{name}") for name in names)  # a connection notifies a core


def private_folder() -> str:
    """Create the runtime folder if needed, and check that only this user can access it.

    Raises: UntrustedFolder; OSError if the folder cannot be created.
    """
    path = runtime_folder()
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        check_private(path)
    return path


def fallback_socket(name: str) -> str:
    """Return the path of a Unix socket for HTTP, if TCP is not permitted.

    It is in the runtime folder, or next to it.
    """
    try:
        return f"{private_folder()}/http-{name}.sock"
    except OSError:
        return f"/tmp/mcpdesk-{name}.sock"


def check_private(path: str) -> None:
    """Check that a path is a folder of this user that other users cannot access, and not a symbolic link.

    Raises: UntrustedFolder; FileNotFoundError if the path does not exist.
    """
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise UntrustedFolder(f"{path} is not a folder")
    if status.st_uid != os.getuid():
        raise UntrustedFolder(f"{path} belongs to another user ({status.st_uid})")
    if status.st_mode & 0o077:
        mode = f"{status.st_mode & 0o777:o}"
        raise UntrustedFolder(f"{path} is open to other users (mode {mode}; chmod 700 it)")


def find_desk(folder: AnyPath, state: str | None = None) -> socket.socket | None:
    """Connect to the desk that hosts `folder`. Return None if no desk hosts the folder.

    Raises: UntrustedFolder; OSError if the folder does not exist.
    """
    if not HAS_SOCKETS:
        return None
    point = folder_socket(folder, state)
    try:
        check_private(runtime_folder())
    except FileNotFoundError:
        return None
    return connect(point)


class ListeningSocket:
    """Unix socket on which this process listens. `listener` is the socket, `path` its file."""

    def __init__(self, path: str, listener: socket.socket) -> None:
        self.path = path
        self.listener = listener
        self._inode = os.stat(path).st_ino

    def withdraw(self) -> None:
        """Delete the file, unless another process has replaced it."""
        try:
            if os.stat(self.path).st_ino == self._inode:
                os.unlink(self.path)
        except FileNotFoundError:
            pass

    def leave(self) -> None:
        """Delete the file and stop listening."""
        self.withdraw()
        self.listener.close()


def listen_for_folder(folder: AnyPath, state: str | None = None) -> ListeningSocket | None:
    """Listen on the socket of `folder`. Return None if a running core already listens there.

    Raises: UntrustedFolder; OSError if the folder does not exist or the socket cannot be created.
    """
    point = folder_socket(folder, state)
    sweep(private_folder())
    return listen(point)


def sweep(runtime: str) -> None:
    """Delete the sockets of cores that were killed."""
    with _FolderLock(runtime):
        for name in os.listdir(runtime)[:MAX_CHECKED_FILES]:
            point = f"{runtime}/{name}"
            if _is_socket_name(name) and is_stale(point):
                _delete_socket(point)


def listen(point: str) -> ListeningSocket | None:
    """Listen on a Unix socket that only this user can use. Return None if a process already listens there.

    The file of an ended process is deleted under a lock, after a connection to it has failed. Two cores that
    start at the same time therefore cannot delete each other's socket. Raises: OSError; FileExistsError if
    `point` is not a socket.
    """
    with _FolderLock(os.path.dirname(point) or "."):
        return _bind(point)


class _FolderLock:
    """Lock of a folder between processes."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        import fcntl

        self._handle = os.open(self._folder, os.O_RDONLY)
        fcntl.flock(self._handle, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)


def _is_socket_name(name: str) -> bool:
    """Return True if a file of the runtime folder has the name of a socket of a core."""
    stem, _, kind = name.partition(".")
    numbers = stem.split("-")
    has_known_kind = kind in ("sock", "attach", "tap", "open") or kind.endswith((".lone", ".state"))
    lengths = (1, 2) if kind in ("attach", "tap", "open") else (2, 3)
    return has_known_kind and len(numbers) in lengths and not set("".join(numbers)) - set("0123456789abcdef")


def is_stale(point: str) -> bool:
    """Return True if no process listens on the socket. Does not wait for a busy process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        try:
            connection.connect(point)
        except ConnectionRefusedError:  # also raised for a regular file
            try:
                return stat.S_ISSOCK(os.lstat(point).st_mode)
            except FileNotFoundError:
                return True
        except FileNotFoundError:  # deleted in the meantime
            return True
        except OSError:
            return False
    return False


def _bind(point: str) -> ListeningSocket | None:
    """Listen on `point`, unless a process listens there. Call this under the lock of the folder."""
    if (existing := connect(point)) is not None:
        existing.close()
        return None
    _delete_socket(point)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        old_umask = os.umask(0o177)
        try:
            listener.bind(point)
        finally:
            os.umask(old_umask)
        listener.listen(LISTEN_BACKLOG)
    except OSError:
        listener.close()
        raise
    return ListeningSocket(point, listener)


def _delete_socket(point: str) -> None:
    try:
        status = os.lstat(point)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise FileExistsError(f"{point} exists, but is not a socket")
    os.unlink(point)


def connect(point: str) -> socket.socket | None:
    """Connect to a process of this user that listens at `point`. Return None if no process listens there."""
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
    """Return process id and user id of the peer, from the kernel. Both are None if they are not available."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None, None
    credentials = connection.getsockopt(socket.SOL_SOCKET, option, 12)
    pid, uid = (int.from_bytes(credentials[offset : offset + 4], sys.byteorder) for offset in (0, 4))
    return pid, uid


def process_name(pid: int) -> str:
    """Return the name of a process, such as `claude`, or "" if the system does not provide it."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as comm:
            return comm.read().strip()
    except OSError:
        return ""
