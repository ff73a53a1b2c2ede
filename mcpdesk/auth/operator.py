"""Credential of the operator, and sessions of browsers that signed in with it.

The operator answers questions and sees traffic. Callers have other keys, with which they can only call tools.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from mcpdesk import private_files
from mcpdesk.auth.principal import matches

OPERATOR_HEADER = "X-Operator-Key"
"""Header for the operator's key."""
FOLDER = "operator"
"""Folder in the state folder, with one file per process: the credential of that process."""
CREDENTIAL_BYTES = 24
SESSION_S = 24 * 3600.0
"""Lifetime of a browser session in seconds."""
LINK_S = 600.0
"""Lifetime of a sign-in link in seconds."""
MAX_SESSIONS = 200
"""Maximum number of browser sessions. The oldest are dropped first."""
MAX_LINKS = 50
"""Maximum number of unused sign-in links. The oldest are dropped first."""
MAX_ATTEMPTS = 5
"""Maximum number of attempts to create the credential file, which another process may delete at once."""

log = logging.getLogger(__name__)


def _random_hex(size: int) -> str:
    """Return `size` random bytes in hexadecimal, without `secrets`, whose import would delay each start."""
    return os.urandom(size).hex()


class BrowserSession(Struct, frozen=True):
    """Session of one browser.

    A request needs both the cookie and the page key, because browsers send a cookie to every port of a host.
    """

    cookie: str
    page_key: str
    """Secret that the page sends in a header or a path, never in a cookie."""
    expires: float
    """Expiry, Unix time in seconds."""


class Operator:
    """Credential of one process. Thread-safe."""

    def __init__(self, configured: str = "", clock: Callable[[], float] = time.time) -> None:
        """Create an operator. If no credential is configured, a random one is generated."""
        self.is_configured = bool(configured)
        self.credential = configured or _random_hex(CREDENTIAL_BYTES)
        self.file: Path | None = None
        """Path of the file with the credential, or None if it is not in a file."""
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: dict[str, BrowserSession] = {}
        self._links: dict[str, float] = {}
        """Expiry of each unused sign-in link in Unix seconds, by the one-time code of the link."""

    def matches(self, secret: str | None) -> bool:
        """Return True if the given text is the credential, in constant time."""
        return matches(secret, self.credential)

    def new_link_code(self) -> str:
        """Return a one-time code for a link that signs in one browser. It expires after `LINK_S`."""
        code = _random_hex(CREDENTIAL_BYTES)
        with self._lock:
            self._links[code] = self._clock() + LINK_S
            while len(self._links) > MAX_LINKS:
                del self._links[next(iter(self._links))]
        return code

    def sign_in(self, secret: str) -> BrowserSession | None:
        """Sign in a browser with the credential, or with the one-time code of a link.

        Return None for any other text.
        """
        if not self.matches(secret) and not self._use_link(secret):
            return None
        expires = self._clock() + SESSION_S
        session = BrowserSession(_random_hex(32), _random_hex(32), expires)
        with self._lock:
            self._sessions[session.cookie] = session
            while len(self._sessions) > MAX_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
        return session

    def find(self, cookie: str, page_key: str) -> BrowserSession | None:
        """Return the session with this cookie and page key, or None if it does not exist or has expired."""
        session = self._sessions.get(cookie)
        is_valid = session is not None and matches(page_key, session.page_key) and self.is_valid(session)
        return session if is_valid else None

    def now(self) -> float:
        """Return Unix time in seconds, from the clock that determines expiry."""
        return self._clock()

    def is_valid(self, session: BrowserSession) -> bool:
        """Return True if a session has neither been signed out nor expired."""
        return session.cookie in self._sessions and self._clock() <= session.expires

    def ticket(self, session: BrowserSession, purpose: str) -> str:
        """Return a code for a link, which must not contain the page key. It is valid for one purpose."""
        import hmac

        return hmac.new(session.page_key.encode(), purpose.encode(), "sha256").hexdigest()

    def accepts_ticket(self, cookie: str, ticket: str, purpose: str) -> bool:
        """Return True if a ticket is valid for the session with this cookie and for this purpose."""
        session = self._sessions.get(cookie)
        if session is None or not self.is_valid(session):
            return False
        return matches(ticket, self.ticket(session, purpose))

    def sign_out(self, session: BrowserSession) -> None:
        """End one session."""
        with self._lock:
            self._sessions.pop(session.cookie, None)

    def revoke_all(self) -> int:
        """End all sessions, and invalidate all unused links. Return the number of sessions that ended."""
        with self._lock:
            count = sum(self._clock() <= session.expires for session in self._sessions.values())
            self._sessions.clear()
            self._links.clear()
        return count

    def _use_link(self, code: str) -> bool:
        """Invalidate the one-time code of a link. Return True if the code was valid."""
        with self._lock:
            return self._links.pop(code, 0.0) >= self._clock()


@contextmanager
def credential_file(state: Path, operator: Operator) -> Iterator[Path | None]:
    """While the block runs, store a random credential in a file that only this user can read.

    Yield the path of the file. Yield None if the credential was configured, or if the file cannot be written.
    """
    if operator.is_configured:
        yield None
        return
    path = state / FOLDER / str(os.getpid())
    try:
        _delete_stale_files(path.parent)
        descriptor = _create_held_file(path, operator.credential)
    except OSError as error:
        log.warning("the operator's key cannot be stored in a file: %s (%s)", error.strerror, path)
        yield None
        return
    try:
        operator.file = path
        yield path
    finally:
        operator.file = None
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _create_held_file(path: Path, credential: str) -> int:
    """Write the file, and mark it as in use with `private_files.hold`. Return its descriptor.

    Another process that starts now may delete the file before it is marked. The file is then created again.
    Raises: OSError.
    """
    for _ in range(MAX_ATTEMPTS):
        path.unlink(missing_ok=True)
        descriptor = private_files.create(path)
        try:
            private_files.hold(descriptor)
            os.write(descriptor, f"{credential}\n".encode())
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                return descriptor
        except FileNotFoundError:
            pass
        except OSError:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise
        os.close(descriptor)
    raise OSError(errno.EBUSY, "other processes delete it")


def _delete_stale_files(folder: Path) -> None:
    """Delete the files of processes that were killed."""
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            if not private_files.is_held(path):
                path.unlink(missing_ok=True)
