"""Persistent tokens, in the system's keyring or else in a file that only this user can read."""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import stat
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct, field

from mcpdesk import private_files
from mcpdesk.client.oauth.values import ClientRegistration, OAuthGrant
from mcpdesk.errors import AuthorizationError
from mcpdesk.portable_files import is_own, is_shared

FILE_NAME = "tokens.json"
SERVICE = "mcpdesk"
MAX_BYTES = 4 << 20
"""Largest token file in bytes."""
LOCK_FILES = 16
"""Number of lock files for renewals. Several servers may share a lock file."""
LOCK_TIMEOUT_S = 90.0
"""Maximum seconds to wait while another process renews a token.

Longer than the requests of a renewal may take.
"""
LOCK_RETRY_S = 0.02
T = TypeVar("T")


class TextStore(Protocol):
    """Store of secret texts by name."""

    location: str
    """Description of the location, for a person."""

    def read(self, name: str) -> str | None:
        """Return the text with that name, or None."""

    def write(self, name: str, text: str) -> None:
        """Store a text. Raises: AuthorizationError if it cannot be stored."""

    def delete(self, name: str) -> None:
        """Delete a text if it exists."""

    def check(self) -> None:
        """Check that texts can be written. Raises: AuthorizationError with the reason and advice."""


class StoredGrants:
    """`GrantStore` that stores tokens and registrations in a `TextStore`."""

    def __init__(self, texts: TextStore, lock_folder: Path, account: str = "") -> None:
        """`account` identifies the login if the user has several at one server.

        Lock files in `lock_folder` prevent two processes from renewing the same token.
        """
        self._texts = texts
        self._lock_folder = lock_folder
        self._account = f" {account}" if account else ""

    @property
    def location(self) -> str:
        """Description of the location of the tokens, for a person."""
        return self._texts.location

    def grant(self, server_url: str) -> OAuthGrant | None:
        """Return the token for a server, or None."""
        return self._read(f"token {server_url}{self._account}", OAuthGrant)

    def store(self, server_url: str, grant: OAuthGrant) -> None:
        """Store a token, and the client that it was issued to."""
        self._texts.write(f"token {server_url}{self._account}", msgspec.json.encode(grant).decode())
        self._texts.write(f"client {grant.issuer}", msgspec.json.encode(grant.client).decode())

    def check(self) -> None:
        """Check that tokens can be stored. Raises: AuthorizationError with advice."""
        self._texts.check()

    def forget(self, server_url: str) -> None:
        """Delete the token for a server."""
        self._texts.delete(f"token {server_url}{self._account}")

    @asynccontextmanager
    async def renewal_lock(self, server_url: str) -> AsyncIterator[None]:
        """Keep other processes from renewing the token while the block runs. Raises: AuthorizationError."""
        file_number = sha256(f"{server_url}{self._account}".encode()).digest()[0] % LOCK_FILES
        path = self._lock_folder / f"renewal-{file_number}.lock"
        with ExitStack() as locks:
            deadline = time.monotonic() + LOCK_TIMEOUT_S
            while True:
                try:
                    lock = private_files.locked(path, timeout_s=0)
                    await asyncio.to_thread(locks.enter_context, lock)
                    break
                except TimeoutError as error:
                    if time.monotonic() > deadline:
                        raise AuthorizationError(f"the token cannot be renewed: {error.strerror}") from None
                except OSError as error:
                    text = f"the token cannot be renewed: {path}: {error.strerror}"
                    raise AuthorizationError(text) from None
                await asyncio.sleep(LOCK_RETRY_S)
            yield

    def client(self, issuer: str) -> ClientRegistration | None:
        """Return this client's registration at an authorization server, or None."""
        return self._read(f"client {issuer}", ClientRegistration)

    def _read(self, name: str, kind: type[T]) -> T | None:
        """Return a stored value, or None if it is missing or malformed."""
        text = self._texts.read(name)
        with suppress(msgspec.DecodeError):
            return None if text is None else msgspec.json.decode(text, type=kind)
        return None


class _TokenFile(Struct):
    texts: dict[str, str] = field(default_factory=dict)


class PrivateFile:
    """Store of texts in a file of mode 0600, which several processes may write.

    A file that other users can read or write is neither used nor replaced.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.location = f"{path}, which only you can read"

    def read(self, name: str) -> str | None:
        """Return the text with that name, or None if it is missing, or if the file cannot be trusted."""
        with suppress(AuthorizationError):
            return self._read_all().get(name)
        return None

    def check(self) -> None:
        """Check that texts can be written. Raises: AuthorizationError with the reason and advice."""
        self._read_all()

    def write(self, name: str, text: str) -> None:
        """Store a text. Raises: AuthorizationError if the file cannot be written."""
        self._change(lambda texts: texts | {name: text})

    def delete(self, name: str) -> None:
        """Delete a text if it exists. Raises: AuthorizationError if the file cannot be written."""
        self._change(lambda texts: {key: text for key, text in texts.items() if key != name})

    def _read_all(self) -> dict[str, str]:
        """Return all texts. Empty if the file does not exist.

        Raises: AuthorizationError if the file cannot be trusted.
        """
        path = self._path
        try:
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unusable(f"cannot be read: {error.strerror}", "check the path") from None
        if not is_own(status):
            raise self._unusable("belongs to another user", "move it away, and log in again")
        mode = stat.S_IMODE(status.st_mode)
        if is_shared(status):
            raise self._unusable(
                f"can be read or written by other users (mode {mode:04o})",
                f"run chmod 600 {shlex.quote(str(path))}, and log in again if others may have read it",
            )
        if len(data) > MAX_BYTES:
            raise self._unusable(f"has more than {MAX_BYTES:,} bytes", "move it away, and log in again")
        try:
            return msgspec.json.decode(data, type=_TokenFile).texts
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise self._unusable("is not a JSON file of tokens", "move it away, and log in again") from None

    def _unusable(self, reason: str, hint: str) -> AuthorizationError:
        return AuthorizationError(f"the token file {self._path} {reason}; it is not used or changed: {hint}")

    def _change(self, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        """Apply a change to the current content of the file, under a lock."""
        try:
            with private_files.locked(self._path.with_name(f"{self._path.name}.lock")):
                old_texts = self._read_all()
                new_texts = change(old_texts)
                if new_texts != old_texts:
                    self._replace(new_texts)
        except OSError as error:
            raise AuthorizationError(
                f"the token cannot be stored in {self._path}: {error.strerror}"
            ) from None

    def _replace(self, texts: dict[str, str]) -> None:
        """Write all texts to a temporary file, and rename the temporary file to the token file."""
        data = msgspec.json.encode(_TokenFile(texts))
        if len(data) > MAX_BYTES:
            raise self._unusable(
                f"would have more than {MAX_BYTES:,} bytes", "log out of servers you do not use"
            )
        temporary_path = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}")
        try:
            descriptor = os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary_path, self._path)
        finally:
            temporary_path.unlink(missing_ok=True)


class Keyring:
    """Store of texts in the system's keyring, with the package `keyring`."""

    location = "the keyring of the system"

    def read(self, name: str) -> str | None:
        """Return the text with that name, or None."""
        import keyring

        with suppress(keyring.errors.KeyringError):
            secret: str | None = keyring.get_password(SERVICE, name)
            return secret
        return None

    def write(self, name: str, text: str) -> None:
        """Store a text. Raises: AuthorizationError if the keyring refuses."""
        import keyring

        try:
            keyring.set_password(SERVICE, name, text)
        except keyring.errors.KeyringError as error:
            raise AuthorizationError(f"the keyring did not store the token: {error}") from None

    def delete(self, name: str) -> None:
        """Delete a text if it exists."""
        import keyring

        with suppress(keyring.errors.KeyringError):
            keyring.delete_password(SERVICE, name)

    def check(self) -> None:
        """Do nothing, because a keyring reports errors only when a text is written."""


def open_grants(state_dir: Path, account: str = "") -> StoredGrants:
    """Open the token store of this user: the system's keyring if it is usable, or a file in `state_dir`."""
    texts: TextStore = Keyring() if _has_keyring() else PrivateFile(state_dir / FILE_NAME)
    return StoredGrants(texts, state_dir, account)


def _has_keyring() -> bool:
    """Return True if the package is installed and has found a usable keyring."""
    try:
        import keyring
        from keyring.backends.fail import Keyring as NoKeyring

        return not isinstance(keyring.get_keyring(), NoKeyring)
    except ImportError:
        return False
