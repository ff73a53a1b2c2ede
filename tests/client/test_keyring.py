"""Tokens in the keyring of the system, through the package `keyring` with a backend in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.client.oauth.stored_grants import open_grants
from mcpdesk.client.oauth.values import ClientRegistration, OAuthGrant
from mcpdesk.errors import AuthorizationError

keyring: Any = pytest.importorskip("keyring.backends.fail", reason="the extra `keyring` is not installed")
keyring = sys.modules["keyring"]

URL = "https://a.test/mcp"
GRANT = OAuthGrant("https://as.test", URL, ClientRegistration("me", "s"), "t0k", ("read",))


class Backend(keyring.backend.KeyringBackend):  # type: ignore[misc]
    """Keeps passwords in memory, or refuses them."""

    priority = -1
    """Below every other backend: a backend is found by its class, in all tests of this process."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.refuses = False

    def get_password(self, service: str, username: str) -> str | None:
        """The password, if there is one."""
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        """Keep a password."""
        if self.refuses:
            raise keyring.errors.PasswordSetError("it is locked")
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        """Forget a password."""
        if self.kept.pop((service, username), None) is None:
            raise keyring.errors.PasswordDeleteError("there is none")


@pytest.fixture
def backend() -> Iterator[Backend]:
    """The keyring of the system, for the time of a test."""
    before, backend = keyring.get_keyring(), Backend()
    keyring.set_keyring(backend)
    yield backend
    keyring.set_keyring(before)


def test_a_token_is_kept_in_the_keyring_and_in_no_file(backend: Backend, tmp_path: Path) -> None:
    grants = open_grants(tmp_path)
    grants.check()
    grants.store(URL, GRANT)
    assert "t0k" in "".join(backend.kept.values())
    assert open_grants(tmp_path).grant(URL) == GRANT
    assert open_grants(tmp_path).client("https://as.test") == GRANT.client
    assert not list(tmp_path.iterdir())
    grants.forget(URL)
    grants.forget(URL)
    assert grants.grant(URL) is None


def test_a_keyring_that_refuses_is_named(backend: Backend, tmp_path: Path) -> None:
    backend.refuses = True
    with pytest.raises(AuthorizationError, match="the keyring did not store the token: it is locked"):
        open_grants(tmp_path).store(URL, GRANT)


def test_without_a_usable_keyring_a_file_keeps_tokens(backend: Backend, tmp_path: Path) -> None:
    keyring.set_keyring(keyring.backends.fail.Keyring())
    open_grants(tmp_path).store(URL, GRANT)
    assert open_grants(tmp_path).grant(URL) == GRANT
    assert list(tmp_path.iterdir()) and not backend.kept
