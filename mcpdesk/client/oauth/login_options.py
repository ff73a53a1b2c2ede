"""Login options from flags and configuration files. Secrets are read from variables and files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.errors import AuthorizationError

if TYPE_CHECKING:
    from mcpdesk.client.oauth.grants import ClientSetup, Machine

MAX_BYTES = 64 << 10
"""Largest file with a secret, in bytes."""


class Secret(Struct, frozen=True):
    """Secret text, or the path of a file that contains it. The file is read at each login."""

    text: str = ""
    file: str = ""

    def __repr__(self) -> str:
        return "Secret()"

    def __bool__(self) -> bool:
        return bool(self.text or self.file)

    def read(self) -> str:
        """Return the secret without surrounding white space.

        Raises: AuthorizationError for an invalid file.
        """
        if not self.file:
            return self.text.strip()
        try:
            with Path(self.file).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
            secret = data.decode().strip()
        except OSError as error:
            raise AuthorizationError(f"{self.file} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise AuthorizationError(f"{self.file} is not UTF-8 text") from None
        if not secret or len(data) > MAX_BYTES:
            reason = "is empty" if not secret else f"has more than {MAX_BYTES:,} bytes"
            raise AuthorizationError(f"{self.file} {reason}")
        return secret


NO_SECRET = Secret()


class LoginOptions(Struct, frozen=True):
    """Login options for one server. By default, a person logs in and the client registers itself."""

    client_id: str = ""
    """Id of a registered client. If empty, the client registers itself or uses `client_metadata_url`."""
    client_secret: Secret = NO_SECRET
    client_key: Secret = NO_SECRET
    """Private key in PEM with which the client signs assertions."""
    client_issuer: str = ""
    """Issuer at which the client is registered. `client_id` is not sent to another authorization server."""
    client_metadata_url: str = ""
    """URL of a client ID metadata document, which replaces the registration of the client."""
    scope: str = ""
    """Scopes to request. If empty, the scopes that the server names are requested."""
    callback_port: int = 0
    """Port of the redirect URI, or 0 for any free port."""
    assumes_pkce: bool = False
    """True to use PKCE even if the metadata of the authorization server does not mention PKCE."""
    uses_credentials: bool = False
    """True if the client logs in for itself, without a person (grant type client_credentials)."""
    assertion: Secret = NO_SECRET
    """Signed token from the platform that this client runs on. It is exchanged for an access token."""
    provider_url: str = ""
    """Token endpoint of an identity provider at which a person is logged in (enterprise login, ID-JAG)."""
    provider_client_id: str = ""
    """Id of this client at that provider."""
    id_token: Secret = NO_SECRET
    """ID token of the person, issued by that provider."""
    callback_host: str = ""
    """Host of the redirect URI that the client is registered with. Empty for 127.0.0.1."""
    callback_path: str = ""
    """Path of the redirect URI. Empty for the default."""

    @property
    def is_machine(self) -> bool:
        """True if a token can be obtained without a browser."""
        return self.uses_credentials or bool(self.assertion or self.client_key or self.provider_url)

    @property
    def machine_id(self) -> str | None:
        """Id of a client that logs in without a person, or None if a person must log in."""
        return self.client_id if self.is_machine else None

    @property
    def files(self) -> tuple[str, ...]:
        """Files that are read at a login."""
        secrets = (self.client_secret, self.client_key, self.assertion, self.id_token)
        return tuple(secret.file for secret in secrets if secret.file)

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts and file names in the options."""
        texts: list[str] = []
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, Secret):
                texts += [value.text, value.file]
            elif isinstance(value, str):
                texts.append(value)
        return tuple(filter(None, texts))

    def with_expanded_texts(self, expand: Callable[[str], str], folder: Path) -> LoginOptions:
        """Return the options with `expand` applied to each text. Relative file paths are below `folder`."""
        options = self
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, Secret) and value:
                file = str(folder / Path(expand(value.file)).expanduser()) if value.file else ""
                options = replace(options, **{name: Secret(expand(value.text), file)})
            elif isinstance(value, str) and value:
                options = replace(options, **{name: expand(value)})
        return options

    def problem(self) -> str:
        """Return the reason why these options are invalid, without a full stop, or "" if they are valid."""
        is_method_used = {
            "client credentials": self.uses_credentials or bool(self.client_key),
            "an assertion": bool(self.assertion),
            "an identity provider": bool(self.provider_url or self.id_token or self.provider_client_id),
        }
        methods = [method for method, is_used in is_method_used.items() if is_used]
        if len(methods) > 1:
            return f"{' and '.join(methods)} cannot be used together"
        if self.assertion and self.client_id:
            return "an assertion already names the client, so it cannot be used with a client id"
        if self.client_secret and not self.client_id:
            return "a client secret needs the client's id"
        if self.client_key and (not self.client_id or self.client_secret):
            return "a client key needs the client's id, and no secret"
        if self.uses_credentials and not (self.client_id and (self.client_secret or self.client_key)):
            return "client credentials need the client's id, and its secret or key"
        if methods == ["an identity provider"]:
            if not (self.provider_url and self.provider_client_id and self.id_token):
                return "an identity provider needs its token URL, the client's id there, and an ID token"
            if not (self.client_id and self.client_secret):
                return "an identity provider needs the client's id and secret at the authorization server"
        return self._address_problem()

    def _address_problem(self) -> str:
        """Return the reason why a URL in the options is invalid, or "" if all are valid."""
        metadata_parts = urlsplit(self.client_metadata_url)
        is_https_document = metadata_parts.scheme == "https" and metadata_parts.path not in ("", "/")
        if self.client_metadata_url and not is_https_document:
            return "the address of the client's metadata must be an https URL with a path"
        addresses = {"token URL of the identity provider": self.provider_url, "issuer": self.client_issuer}
        for kind, url in addresses.items():
            if not url:
                continue
            from mcpdesk.client.oauth.values import checked_endpoint

            try:
                checked_endpoint(url, f"the {kind}")
            except AuthorizationError as error:
                return error.message
        return ""

    def setup(self, redirect_uri: str = "") -> ClientSetup:
        """Return the client setup for one login.

        Raises: AuthorizationError for a secret that cannot be read.
        """
        from mcpdesk.client.oauth.grants import ClientSetup
        from mcpdesk.client.oauth.values import ClientRegistration

        client = None
        if self.client_id and not self.is_machine:
            secret = self.client_secret.read() if self.client_secret else ""
            client = ClientRegistration(self.client_id, secret, redirect_uri=redirect_uri)
        return ClientSetup(
            redirect_uri=redirect_uri,
            metadata_url=self.client_metadata_url,
            client=client,
            client_issuer=self.client_issuer,
            machine=self._machine() if self.is_machine else None,
            assumes_pkce=self.assumes_pkce,
            scope=self.scope,
        )

    def _machine(self) -> Machine:
        """Return the credentials for a login without a person. Raises: AuthorizationError."""
        from mcpdesk.client.oauth.grants import ClientCredentials, EnterpriseLogin, SignedAssertion

        if self.assertion:
            return SignedAssertion(self.assertion.read())
        secret = self.client_secret.read() if self.client_secret else ""
        if self.provider_url:
            token = self.id_token.read()
            return EnterpriseLogin(self.provider_url, self.provider_client_id, token, self.client_id, secret)
        key = self.client_key.read() if self.client_key else ""
        return ClientCredentials(self.client_id, secret, key)


NO_OPTIONS = LoginOptions()
