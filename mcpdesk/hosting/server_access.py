"""Access rules of a server, created from the `auth` section of its manifest."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mcpdesk.auth.access import OPEN_ACCESS, Access
from mcpdesk.hosting.folder.manifest import Auth, Jwt
from mcpdesk.server.offer.tool import Tool
from mcpdesk.setting_values import SettingKind
from mcpdesk.settings import SETTINGS

if TYPE_CHECKING:
    from mcpdesk.auth.keys import KeySet, KeySource, Load


class AccessGate:
    """Access rules of one server. They change with its manifest; keys are kept while `auth` is unchanged."""

    def __init__(
        self,
        realm: str,
        folder: Path,
        report: Callable[[str], None],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """`realm` is the server's name. `report` is called with each problem with the keys."""
        self._realm = realm
        self._folder = folder
        self._report = report
        self._environment = environment
        self._built_from: tuple[Auth, str] | None = None
        """Section of the manifest, and secret, that `access` was created from."""
        self.access: Access = OPEN_ACCESS

    def update(self, auth: Auth) -> Access:
        """Return the access rules of a manifest. If they did not change, the current object is returned."""
        secret = self._environment.get(auth.jwt.secret_env, "") if auth.jwt is not None else ""
        if self._built_from != (auth, secret):
            self.close()
            self._built_from = (auth, secret)
            self.access = self._create_access(auth)
        return self.access

    def close(self) -> None:
        """Stop loading keys."""
        if self.access.verifier is not None:
            self.access.verifier.close()

    def _create_access(self, auth: Auth) -> Access:
        """Create the access rules for a section of the manifest."""
        if auth.jwt is None:
            return OPEN_ACCESS
        from mcpdesk.auth.tokens import TokenTerms, Verifier

        if auth.jwt.secret_env and not self._environment.get(auth.jwt.secret_env):
            self._report(f"auth.jwt: {auth.jwt.secret_env} is not set, so no token is accepted")
        source = key_source(auth.jwt, self._folder, self._environment, self._report, _fetch)
        terms = TokenTerms(
            algorithms=frozenset(auth.jwt.algorithms),
            issuer=auth.jwt.issuer,
            audiences=auth.audiences,
            leeway_s=auth.jwt.leeway_s,
            realm=self._realm,
            includes={scope: frozenset(narrower_scopes) for scope, narrower_scopes in auth.includes.items()},
        )
        return Access(
            requires_token=auth.requires_jwt,
            verifier=Verifier(terms, source),
            scopes=frozenset(auth.scopes),
            authorization_servers=tuple(auth.authorization_servers),
            scopes_supported=tuple(auth.scopes),
            resource=auth.resource,
        )


def with_required_tokens(tools: Iterable[Tool], auth: Auth) -> Iterator[Tool]:
    """Yield the tools with the token requirements that the manifest adds."""
    for tool in tools:
        requirement = auth.tools.get(tool.name)
        if requirement is None:
            yield tool
            continue
        scopes = tuple(dict.fromkeys((*tool.scopes, *requirement.scopes)))
        yield replace(
            tool, requires_jwt=tool.requires_jwt or requirement.requires_jwt or bool(scopes), scopes=scopes
        )


def access_warnings(auth: Auth, tools: Iterable[Tool]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield a warning for each rule that rejects every caller or accepts tokens for any audience.

    Each item is a pair: the path of the rule in the manifest, and the text.
    """
    token_tools = [tool.name for tool in tools if tool.requires_jwt]
    if auth.jwt is None:
        if token_tools:
            yield (
                ("auth",),
                f"no client can call {', '.join(token_tools)}: this needs a token, and auth.jwt is missing",
            )
    elif not auth.jwt.secret_env and not auth.audiences:
        warning = "tokens of this issuer are accepted for every audience: set audience"
        yield ("auth", "jwt", "audience"), warning


def secret_variables(names: Iterable[str]) -> set[str]:
    """Return `names`, and the names of the environment variables for mcpdesk's own secret settings."""
    secret_settings = (setting for setting in SETTINGS if setting.kind is SettingKind.SECRET)
    own_names = {name for setting in secret_settings for name in setting.environment}
    return {*own_names, *names} - {""}


def public_environment(secret_names: Iterable[str]) -> dict[str, str]:
    """Return the environment of this process without the given variables and mcpdesk's own secrets."""
    hidden_names = secret_variables(secret_names)
    return {name: value for name, value in os.environ.items() if name not in hidden_names}


async def _fetch(url: str, max_bytes: int) -> bytes:
    """Fetch a key document of at most `max_bytes` bytes."""
    from mcpdesk.transports.http.key_fetch import fetch_document

    return await fetch_document(url, max_bytes)


MAX_DOCUMENT_BYTES = 256 << 10
"""Maximum size of a key document in bytes."""

Fetch = Callable[[str, int], Awaitable[bytes]]
"""Function that fetches a document up to a size in bytes. Raises: OSError or ValueError with a reason."""


def key_source(
    jwt: Jwt, folder: Path, environment: Mapping[str, str], report: Callable[[str], None], fetch: Fetch
) -> KeySource:
    """Return the source of the keys that a manifest names. It loads the keys again at intervals (its pace).

    `report` is called with problems. The text of a report never contains a secret.
    """
    from mcpdesk.auth.keys import CONSTANT, FILE, URL, KeySet, KeySource, constant, secret_keys

    allowed_algorithms = tuple(jwt.algorithms)
    if jwt.secret_env:
        setting, pace = f"secret_env {jwt.secret_env}", CONSTANT
        secret = environment.get(jwt.secret_env, "")
        keys = secret_keys(secret.encode(), allowed_algorithms) if secret else KeySet(())
        if keys.complaints:
            report(f"auth.jwt: {setting}: {'; '.join(keys.complaints)}")
        load = constant(KeySet(keys.keys))
    elif jwt.jwks_file:
        setting, pace = f"jwks_file {jwt.jwks_file}", FILE
        load = file_keys(folder / jwt.jwks_file, allowed_algorithms)
    else:
        setting, pace = f"jwks_url {jwt.jwks_url}", URL
        load = url_keys(jwt.jwks_url, allowed_algorithms, fetch)
    return KeySource(load, pace, lambda problem: report(f"auth.jwt: {setting}: {problem}"))


def file_keys(path: Path, algorithms: Iterable[str]) -> Load:
    """Return a function that loads a JWK set from a file. It reads the file again after a change."""
    last_state: tuple[int, int, int] | None = None
    allowed_algorithms = tuple(algorithms)

    def read() -> KeySet | None:
        nonlocal last_state
        try:
            status = path.stat()
            file_state = (status.st_ino, status.st_mtime_ns, status.st_size)
            if file_state == last_state:
                return None
            with path.open("rb") as file:
                data = file.read(MAX_DOCUMENT_BYTES + 1)
        except OSError as error:
            last_state = None
            raise OSError(f"it cannot be read: {error.strerror}") from None
        last_state = file_state
        return _parsed_keys(data, allowed_algorithms, with_secrets=True)

    async def load() -> KeySet | None:
        return await asyncio.to_thread(read)

    return load


def url_keys(url: str, algorithms: Iterable[str], fetch: Fetch) -> Load:
    """Return a function that fetches a JWK set from a URL."""
    allowed_algorithms = tuple(algorithms)

    async def load() -> KeySet:
        return _parsed_keys(await fetch(url, MAX_DOCUMENT_BYTES), allowed_algorithms, with_secrets=False)

    return load


def _parsed_keys(data: bytes, allowed_algorithms: tuple[str, ...], with_secrets: bool) -> KeySet:
    """Parse a JWK set. Raises: ValueError."""
    from mcpdesk.auth.keys import jwk_keys

    if len(data) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"it is larger than {MAX_DOCUMENT_BYTES} bytes")
    return jwk_keys(data, allowed_algorithms, with_secrets)
