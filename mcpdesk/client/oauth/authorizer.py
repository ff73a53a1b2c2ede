"""OAuth authorization of requests to one server.

Adds the token to each request, and obtains a new token when the server requires one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Protocol, TypeVar

from mcpdesk.client.oauth.discovery import parse_challenge
from mcpdesk.client.oauth.grants import ClientSetup, Discovery, authorize, discover, refresh, revoke
from mcpdesk.client.oauth.login_options import LoginOptions
from mcpdesk.client.oauth.named_addresses import ServerAddresses
from mcpdesk.client.oauth.proofs import ProofKey
from mcpdesk.client.oauth.values import (
    Challenge,
    ClientRegistration,
    Deviation,
    Fetch,
    FetchResult,
    Flow,
    OAuthGrant,
    Visit,
)
from mcpdesk.errors import AuthorizationError, HttpError

MAX_LOGINS = 3
"""Maximum number of logins for one request. After these, a rejection of the request is final."""
T = TypeVar("T")

Visitor = Callable[[str], Awaitable[str]]
"""Function that opens a URL in a person's browser and returns the URL of the redirect.

Raises: AuthorizationError.
"""


class Requester(Protocol):
    """Sends the requests of a login."""

    async def fetch(self, step: Fetch) -> FetchResult:
        """Send one request. Raises: AuthorizationError, HttpError."""

    async def check_page(self, subject: str, url: str) -> None:
        """Check the URL of a page before a browser opens it.

        Raises: AuthorizationError if its address is not allowed.
        """

    def report_deviation(self, text: str) -> None:
        """Report a fault of the authorization server that does not stop the login."""


class GrantStore(Protocol):
    """Store of tokens by server URL and of client registrations by issuer.

    All methods except `renewal_lock` use files or the keyring and may wait for another process. Call them on
    a worker thread.
    """

    def grant(self, server_url: str) -> OAuthGrant | None:
        """Return the token for a server, or None."""

    def store(self, server_url: str, grant: OAuthGrant) -> None:
        """Store a token, and the client that it was issued to."""

    def forget(self, server_url: str) -> None:
        """Delete the token for a server."""

    def client(self, issuer: str) -> ClientRegistration | None:
        """Return this client's registration at an authorization server, or None."""

    def renewal_lock(self, server_url: str) -> AbstractAsyncContextManager[None]:
        """Return a lock that only one process can hold, for renewing a token. Raises: AuthorizationError."""

    def check(self) -> None:
        """Check that tokens can be stored. Raises: AuthorizationError."""


class Authorizer:
    """Authorization of one client at one server. Must be used on one event loop."""

    def __init__(
        self,
        server_url: str,
        setup: ClientSetup | LoginOptions,
        store: GrantStore,
        visit: Visitor | None = None,
    ) -> None:
        """`setup` has the identity and options of the client. Its method `setup` is called at each login.

        `visit` opens a person's browser. It is None if no person can log in.
        """
        self._url = server_url
        self.addresses = ServerAddresses(server_url)
        """IP addresses of the server, which decide which URLs in the server's metadata are accepted."""
        self._setup = setup
        self._store = store
        self._visit = visit
        self._unshared_grant: OAuthGrant | None = None
        """Token obtained with a machine's credentials, if the store has another client's token."""
        self._proof_key = ProofKey()
        self._discovery: Discovery | None = None
        self._renewal_lock = asyncio.Lock()

    async def headers(self, method: str, url: str, requests: Requester) -> dict[str, str]:
        """Return the authorization headers of a request, or an empty dict without a token.

        An expired token is renewed first.
        """
        grant = await self._grant()
        if grant is not None and grant.has_expired(time.time()) and grant.refresh_token:
            with suppress(AuthorizationError):  # the server will reject the request and state the reason
                async with self._renewal_lock, self._store.renewal_lock(self._url):
                    grant = await self._grant()
                    if grant is not None and grant.has_expired(time.time()) and grant.refresh_token:
                        await self._refresh(grant, Challenge(), requests)
            grant = await self._grant()
        if grant is None:
            return {}
        if not grant.is_bound:
            return {"Authorization": f"Bearer {grant.access_token}"}
        proof = self._proof_key.header(method, url, grant.access_token)
        return {"Authorization": f"DPoP {grant.access_token}", **proof}

    async def renew_after_rejection(
        self,
        status: int,
        headers: Mapping[str, str],
        challenges: Sequence[str],
        sent_headers: Mapping[str, str],
        attempt: int,
        requests: Requester,
    ) -> bool:
        """Return True if a rejected request should be repeated with a new token or DPoP nonce.

        `headers` are the headers of the answer, with lower-case names. `sent_headers` are the headers from
        `headers()` with which the request was sent. `attempt` is the number of earlier attempts.

        Raises: AuthorizationError if no token can be obtained.
        """
        challenge = parse_challenge(challenges) or Challenge()
        is_step_up = status == 403 and challenge.error == "insufficient_scope"
        if attempt >= MAX_LOGINS or not (status == 401 or is_step_up):
            return False
        has_proof = sent_headers.get("Authorization", "").startswith("DPoP ")
        if has_proof and self._proof_key.store_nonce(self._url, headers):
            return True  # the token stays the same, but the next proof has the server's nonce
        async with self._renewal_lock:
            grant = await self._grant()
            renewal_error: AuthorizationError | None = None
            if grant is not None and not is_step_up and grant.refresh_token:
                try:
                    async with self._store.renewal_lock(self._url):
                        grant = await self._grant()
                        if grant is not None and grant.refresh_token and _is_token_of(grant, sent_headers):
                            await self._refresh(grant, challenge, requests)
                            return True
                except AuthorizationError as error:
                    renewal_error = error
            if grant is not None and not _is_token_of(grant, sent_headers):
                return True  # another request or process has renewed the token
            if not self._can_log_in:
                if renewal_error is not None:
                    text = f"the stored login is no longer valid: {renewal_error.message}"
                    raise AuthorizationError(text, renewal_error.clause)
                return False  # the caller reports the server's rejection, and no client is registered
            await self._store_grant(await self._log_in(challenge, grant, is_step_up, requests))
            return True

    async def log_in(self, requests: Requester, challenge: Challenge | None = None) -> OAuthGrant:
        """Obtain and store a new token, even if the store has one. Raises: AuthorizationError."""
        async with self._renewal_lock:
            grant = await self._log_in(challenge or Challenge(), None, False, requests)
            self._unshared_grant = None
            await asyncio.to_thread(self._store.store, self._url, grant)
            return grant

    async def renew(self, requests: Requester, challenge: Challenge) -> OAuthGrant:
        """Renew the stored token now, even if it is valid, and return the new one.

        Raises: AuthorizationError if no refresh token is stored, or the authorization server refuses.
        """
        async with self._renewal_lock, self._store.renewal_lock(self._url):
            grant = await self._grant()
            if grant is None or not grant.refresh_token:
                raise AuthorizationError("no refresh token is stored")
            await self._refresh(grant, challenge, requests)
            new_grant = await self._grant()
        assert new_grant is not None
        return new_grant

    async def revoke(self, requests: Requester, challenge: Challenge) -> bool:
        """Revoke the stored token at the server. Return False if the server does not support revocation.

        Raises: AuthorizationError, HttpError.
        """
        grant = await asyncio.to_thread(self._store.grant, self._url)
        if grant is None:
            return False
        discovery = await self._run(discover(self._url, challenge), requests)
        if discovery.server.issuer != grant.issuer:
            raise AuthorizationError("the server now trusts another authorization server")
        return await self._run(revoke(discovery, grant), requests)

    @property
    def _can_log_in(self) -> bool:
        """True if a token can be obtained with a browser or with a machine's credentials."""
        return self._visit is not None or self._setup.machine_id is not None

    async def _grant(self) -> OAuthGrant | None:
        """Return the token for the server, or None.

        The store is read for each request, on a thread, because another process may have changed the token.
        If this client has a machine's credentials, a token of another client is ignored.
        """
        if self._unshared_grant is not None:
            return self._unshared_grant
        stored = await asyncio.to_thread(self._store.grant, self._url)
        return stored if stored is not None and self._is_usable(stored) else None

    def _is_usable(self, grant: OAuthGrant) -> bool:
        """Return True if this client may use a token: a person logs in, or the token is of this client."""
        return self._setup.machine_id in (None, grant.client.id)

    async def _store_grant(self, grant: OAuthGrant) -> None:
        """Store a token. A machine's token never replaces the login of another client."""
        stored = await asyncio.to_thread(self._store.grant, self._url)
        if stored is None or self._is_usable(stored):
            await asyncio.to_thread(self._store.store, self._url, grant)
        else:
            self._unshared_grant = grant

    async def _log_in(
        self, challenge: Challenge, old_grant: OAuthGrant | None, is_step_up: bool, requests: Requester
    ) -> OAuthGrant:
        """Discover the authorization server again, and obtain a new token.

        `is_step_up` is True if the new token must have the scopes of the old one and further ones.
        """
        await asyncio.to_thread(self._store.check)
        # Discovery is repeated, because the server may now trust another authorization server.
        discovery = self._discovery = await self._run(discover(self._url, challenge), requests)
        earlier_scopes: tuple[str, ...] = ()
        if is_step_up and old_grant is not None and old_grant.issuer == discovery.server.issuer:
            earlier_scopes = old_grant.scopes
        is_bound = challenge.scheme == "dpop" or discovery.resource.is_proof_required
        key = self._proof_key if is_bound else None
        setup = await asyncio.to_thread(self._setup.setup)
        registration = await asyncio.to_thread(self._store.client, discovery.server.issuer)
        flow = authorize(discovery, challenge, setup, registration, earlier_scopes, key)
        if old_grant is not None and not is_step_up:
            if self._unshared_grant is None:
                await asyncio.to_thread(self._store.forget, self._url)
            self._unshared_grant = None
        return await self._run(flow, requests)

    async def _refresh(self, grant: OAuthGrant, challenge: Challenge, requests: Requester) -> None:
        """Obtain and store a new token with the refresh token of `grant`.

        Raises: AuthorizationError if renewal fails, or the server now trusts another authorization server.
        """
        if self._discovery is None or challenge.scheme:
            self._discovery = await self._run(discover(self._url, challenge), requests)
        if self._discovery.server.issuer != grant.issuer:
            raise AuthorizationError("the server now trusts another authorization server")
        key = self._proof_key if grant.is_bound else None
        await self._store_grant(await self._run(refresh(self._discovery, grant, key), requests))

    async def _run(self, flow: Flow[T], requests: Requester) -> T:
        """Run the steps of a flow and return its result."""
        return await run_flow(flow, requests, self._visit)


async def run_flow(flow: Flow[T], requests: Requester, visit: Visitor | None = None) -> T:
    """Run the steps of a flow and return its result.

    Raises: HttpError; AuthorizationError, also if a login is required and `visit` is None.
    """
    outcome: FetchResult | str | None = None
    try:
        while True:
            step = flow.send(outcome)
            if isinstance(step, Visit):
                await requests.check_page("the authorization_endpoint", step.url)
                if visit is None:
                    raise AuthorizationError("a login is required, but no person can log in here")
                outcome = await visit(step.url)
            elif isinstance(step, Deviation):
                requests.report_deviation(step.text)
                outcome = None
            else:
                outcome = await _fetch(requests, step)
    except StopIteration as end:
        result: T = end.value
        return result


async def _fetch(requests: Requester, step: Fetch) -> FetchResult:
    try:
        return await requests.fetch(step)
    except HttpError as error:
        if step.allows_broken_connection and error.status == 0:
            return FetchResult(0, {}, error.message.encode())
        raise


def _is_token_of(grant: OAuthGrant, sent_headers: Mapping[str, str]) -> bool:
    """Return True if a request with these headers was sent with this token."""
    return sent_headers.get("Authorization", "").partition(" ")[2] == grant.access_token
