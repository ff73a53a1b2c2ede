"""Tokens that outlive the process: in the keyring of the system, else in a file only this user can read."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct, field

from mcpdesk.client.oauth.values import ClientRegistration, OAuthGrant
from mcpdesk.errors import AuthorizationError

FILE_NAME = "tokens.json"
SERVICE = "mcpdesk"
T = TypeVar("T")


class TextStore(Protocol):
    """Keeps secret texts by name."""

    where: str
    """Where they are, for a person to read."""

    def read(self, name: str) -> str | None:
        """The text of that name."""

    def write(self, name: str, text: str) -> None:
        """Keep a text. Raises: AuthorizationError when it cannot be kept."""

    def delete(self, name: str) -> None:
        """Forget a text, if there is one."""


class StoredGrants:
    """Implements `GrantStore`: a token for each server, a registration for each authorization server."""

    def __init__(self, texts: TextStore, account: str = "") -> None:
        """`account` is whose tokens they are, where a person has several at one server."""
        self._texts = texts
        self._account = f" {account}" if account else ""

    @property
    def where(self) -> str:
        """Where the tokens are, for a person to read."""
        return self._texts.where

    def grant(self, server_url: str) -> OAuthGrant | None:
        """The token for a server."""
        return self._decoded(f"token {server_url}{self._account}", OAuthGrant)

    def keep(self, server_url: str, grant: OAuthGrant) -> None:
        """Keep a token, and the client it was given to."""
        self._texts.write(f"token {server_url}{self._account}", msgspec.json.encode(grant).decode())
        self._texts.write(f"client {grant.issuer}", msgspec.json.encode(grant.client).decode())

    def forget(self, server_url: str) -> None:
        """Forget the token for a server."""
        self._texts.delete(f"token {server_url}{self._account}")

    def client(self, issuer: str) -> ClientRegistration | None:
        """What this client was registered as at an authorization server."""
        return self._decoded(f"client {issuer}", ClientRegistration)

    def _decoded(self, name: str, kind: type[T]) -> T | None:
        """What is kept; None when there is nothing, or nothing that can be understood."""
        text = self._texts.read(name)
        with suppress(msgspec.DecodeError):
            return None if text is None else msgspec.json.decode(text, type=kind)
        return None


class _Texts(Struct):
    texts: dict[str, str] = field(default_factory=dict)


class PrivateFile:
    """Keeps texts in a file of mode 0600. A file that others can read or write is not believed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.where = f"{path}, which only you can read"

    def read(self, name: str) -> str | None:
        """The text of that name."""
        return self._all().get(name)

    def write(self, name: str, text: str) -> None:
        """Keep a text. Raises: AuthorizationError when the file cannot be written."""
        self._replace(self._all() | {name: text})

    def delete(self, name: str) -> None:
        """Forget a text, if there is one."""
        kept = self._all()
        if kept.pop(name, None) is not None:
            self._replace(kept)

    def _all(self) -> dict[str, str]:
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
                    return {}
                return msgspec.json.decode(file.read(), type=_Texts).texts
        except (OSError, msgspec.DecodeError):
            return {}

    def _replace(self, texts: dict[str, str]) -> None:
        draft = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:
                file.write(msgspec.json.encode(_Texts(texts)))
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, self._path)
        except OSError as error:
            with suppress(OSError):
                draft.unlink()
            raise AuthorizationError(f"the token cannot be kept in {self._path}: {error.strerror}") from None


class Keyring:
    """Keeps texts in the keyring of the system, by the package `keyring`."""

    where = "the keyring of the system"

    def read(self, name: str) -> str | None:
        """The text of that name."""
        import keyring

        with suppress(keyring.errors.KeyringError):
            found: str | None = keyring.get_password(SERVICE, name)
            return found
        return None

    def write(self, name: str, text: str) -> None:
        """Keep a text. Raises: AuthorizationError when the keyring refuses."""
        import keyring

        try:
            keyring.set_password(SERVICE, name, text)
        except keyring.errors.KeyringError as error:
            raise AuthorizationError(f"the keyring does not keep the token: {error}") from None

    def delete(self, name: str) -> None:
        """Forget a text, if there is one."""
        import keyring

        with suppress(keyring.errors.KeyringError):
            keyring.delete_password(SERVICE, name)


def open_grants(state_dir: Path, account: str = "") -> StoredGrants:
    """The tokens of this user: in the keyring where there is one that works, else below `state_dir`."""
    return StoredGrants(Keyring() if _has_keyring() else PrivateFile(state_dir / FILE_NAME), account)


def _has_keyring() -> bool:
    """Whether the package is installed, and found a keyring that can be used."""
    try:
        import keyring
        from keyring.backends.fail import Keyring as NoKeyring

        return not isinstance(keyring.get_keyring(), NoKeyring)
    except ImportError:
        return False
