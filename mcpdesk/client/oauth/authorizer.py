"""Gives the requests to one server their token, and gets a new one when the server asks for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import Protocol, TypeVar

from mcpdesk.client.oauth.discovery import challenge_in
from mcpdesk.client.oauth.grants import ClientSetup, Discovery, authorize, discover, refresh, revoke
from mcpdesk.client.oauth.login_options import LoginOptions
from mcpdesk.client.oauth.named_addresses import ServerAddresses
from mcpdesk.client.oauth.proofs import ProofKey
from mcpdesk.client.oauth.values import (
    Challenge,
    ClientRegistration,
    Deviation,
    Fetch,
    Fetched,
    Flow,
    OAuthGrant,
    Visit,
)
from mcpdesk.errors import AuthorizationError

MOST_LOGINS = 3
"""How often one request may lead to a login, before its refusal is final."""
T = TypeVar("T")

Visitor = Callable[[str], Awaitable[str]]
"""Has a person visit an address; returns the one the browser was sent back to. Raises: AuthorizationError."""


class Requester(Protocol):
    """Sends the requests of a login."""

    async def fetch(self, step: Fetch) -> Fetched:
        """Send one request. Raises: AuthorizationError, HttpError."""

    async def check_page(self, what: str, url: str) -> None:
        """Raises: AuthorizationError for a page to which the server must not send a browser."""

    def remark(self, text: str) -> None:
        """Take a fault of the server that did not stop the login."""


class GrantStore(Protocol):
    """Store of tokens by server address, and of registrations by issuer.

    All but `renewal` use files or the keyring and may wait for another process. Call them on a worker thread.
    """

    def grant(self, server_url: str) -> OAuthGrant | None:
        """The token for a server."""

    def keep(self, server_url: str, grant: OAuthGrant) -> None:
        """Keep a token, and the client it was given to."""

    def forget(self, server_url: str) -> None:
        """Forget the token for a server."""

    def client(self, issuer: str) -> ClientRegistration | None:
        """What this client was registered as at an authorization server."""

    def renewal(self, server_url: str) -> AbstractAsyncContextManager[None]:
        """Held while a token is renewed: no other process renews it then. Raises: AuthorizationError."""

    def check(self) -> None:
        """Raises: AuthorizationError if tokens cannot be kept."""


class GrantsInMemory:
    """Keeps tokens as long as the process runs."""

    def __init__(self) -> None:
        self._grants: dict[str, OAuthGrant] = {}
        self._clients: dict[str, ClientRegistration] = {}

    def grant(self, server_url: str) -> OAuthGrant | None:
        """The token for a server."""
        return self._grants.get(server_url)

    def keep(self, server_url: str, grant: OAuthGrant) -> None:
        """Keep a token, and the client it was given to."""
        self._grants[server_url] = grant
        self._clients[grant.issuer] = grant.client

    def forget(self, server_url: str) -> None:
        """Forget the token for a server."""
        self._grants.pop(server_url, None)

    def client(self, issuer: str) -> ClientRegistration | None:
        """What this client was registered as at an authorization server."""
        return self._clients.get(issuer)

    def renewal(self, server_url: str) -> AbstractAsyncContextManager[None]:
        """Do nothing: no other process sees these tokens."""
        return nullcontext()

    def check(self) -> None:
        """Do nothing: memory keeps any token."""


class Authorizer:
    """The authorization of one client at one server. Used on one loop."""

    def __init__(
        self,
        server_url: str,
        setup: ClientSetup | LoginOptions,
        store: GrantStore,
        visit: Visitor | None = None,
    ) -> None:
        """`visit` opens a person's browser; None if no person can log in. Options are read for each login."""
        self._url = server_url
        self.addresses = ServerAddresses(server_url)
        """Kinds of addresses the server was reached at."""
        self._setup = setup
        self._store = store
        self._visit = visit
        self._own: OAuthGrant | None = None
        """Token of a machine, while the store has the login of another client at this server."""
        self._key = ProofKey()
        self._found: Discovery | None = None
        self._renewing = asyncio.Lock()

    async def headers(self, method: str, url: str, requests: Requester) -> dict[str, str]:
        """The headers of one request: a token if there is one, renewed if it has expired."""
        grant = await self._grant()
        if grant is not None and grant.has_expired(time.time()) and grant.refresh_token:
            with suppress(AuthorizationError):  # the server says then what it wants
                async with self._renewing, self._store.renewal(self._url):
                    grant = await self._grant()
                    if grant is not None and grant.has_expired(time.time()) and grant.refresh_token:
                        await self._refresh(grant, Challenge(), requests)
            grant = await self._grant()
        if grant is None:
            return {}
        if not grant.is_bound:
            return {"Authorization": f"Bearer {grant.access_token}"}
        proof = self._key.header(method, url, grant.access_token)
        return {"Authorization": f"DPoP {grant.access_token}", **proof}

    async def renewed(
        self,
        status: int,
        headers: Mapping[str, str],
        challenges: Sequence[str],
        used: Mapping[str, str],
        attempt: int,
        requests: Requester,
    ) -> bool:
        """Whether a refused request is worth another try, as there is another token now.

        `headers` are the answer's, with lower-case names; `used` those of `headers()` it was sent with;
        `attempt` counts the tries before. Raises: AuthorizationError when no token can be had.
        """
        challenge = challenge_in(challenges) or Challenge()
        is_step_up = status == 403 and challenge.error == "insufficient_scope"
        if attempt >= MOST_LOGINS or not (status == 401 or is_step_up):
            return False
        if used.get("Authorization", "").startswith("DPoP ") and self._key.learn(self._url, headers):
            return True  # the same token, with the nonce the server wants
        async with self._renewing:
            grant = await self._grant()
            fault: AuthorizationError | None = None
            if grant is not None and not is_step_up and grant.refresh_token:
                try:
                    async with self._store.renewal(self._url):
                        grant = await self._grant()
                        if grant is not None and grant.refresh_token and _is_used(grant, used):
                            return await self._refresh(grant, challenge, requests)
                except AuthorizationError as error:
                    fault = error
            if grant is not None and not _is_used(grant, used):
                return True  # another request or process has renewed it
            if not self._can_log_in:
                if fault is not None:
                    raise AuthorizationError(
                        f"the stored login no longer counts: {fault.message}", fault.clause
                    )
                return False  # the server's refusal is the reason to show; nothing is registered
            await self._keep(await self._log_in(challenge, grant, is_step_up, requests))
            return True

    async def log_in(self, requests: Requester, challenge: Challenge | None = None) -> OAuthGrant:
        """Get a new token, whatever there is. Raises: AuthorizationError."""
        async with self._renewing:
            new = await self._log_in(challenge or Challenge(), None, False, requests)
            self._own = None
            await asyncio.to_thread(self._store.keep, self._url, new)
            return new

    async def revoke(self, requests: Requester, challenge: Challenge) -> bool:
        """Have the server revoke the stored token; False if it offers no revocation.

        Raises: AuthorizationError, HttpError.
        """
        grant = await asyncio.to_thread(self._store.grant, self._url)
        if grant is None:
            return False
        found = await self._run(discover(self._url, challenge), requests)
        if found.server.issuer != grant.issuer:
            raise AuthorizationError("the server trusts another authorization server by now")
        return await self._run(revoke(found, grant), requests)

    @property
    def _can_log_in(self) -> bool:
        """True if a browser or credentials of a machine can bring a token."""
        return self._visit is not None or self._setup.machine_id is not None

    async def _grant(self) -> OAuthGrant | None:
        """The token for the server; the stored one only if it fits the client that logs in.

        It is read for each request, on a thread: another process may have renewed or revoked it.
        """
        if self._own is not None:
            return self._own
        stored = await asyncio.to_thread(self._store.grant, self._url)
        return stored if stored is not None and self._fits(stored) else None

    def _fits(self, grant: OAuthGrant) -> bool:
        """True unless a machine logs in, and the token was given to another client."""
        return self._setup.machine_id in (None, grant.client.id)

    async def _keep(self, grant: OAuthGrant) -> None:
        """Store a token; one of a machine never replaces the login of another client."""
        stored = await asyncio.to_thread(self._store.grant, self._url)
        if stored is None or self._fits(stored):
            await asyncio.to_thread(self._store.keep, self._url, grant)
        else:
            self._own = grant

    async def _log_in(
        self, challenge: Challenge, grant: OAuthGrant | None, is_step_up: bool, requests: Requester
    ) -> OAuthGrant:
        await asyncio.to_thread(self._store.check)
        # Looked for anew each time: the server may trust another authorization server by now.
        found = self._found = await self._run(discover(self._url, challenge), requests)
        is_same = grant is not None and grant.issuer == found.server.issuer
        earlier = grant.scopes if grant is not None and is_same and is_step_up else ()
        is_bound = challenge.scheme == "dpop" or found.resource.is_proof_required
        key = self._key if is_bound else None
        setup = await asyncio.to_thread(self._setup.setup)
        known = await asyncio.to_thread(self._store.client, found.server.issuer)
        flow = authorize(found, challenge, setup, known, earlier, key)
        if grant is not None and not is_step_up:
            if self._own is None:
                await asyncio.to_thread(self._store.forget, self._url)
            self._own = None
        return await self._run(flow, requests)

    async def _refresh(self, grant: OAuthGrant, challenge: Challenge, requests: Requester) -> bool:
        """Renew a token without a person; False when the server trusts another authorization server now."""
        if self._found is None or challenge.scheme:
            self._found = await self._run(discover(self._url, challenge), requests)
        if self._found.server.issuer != grant.issuer:
            raise AuthorizationError("the server trusts another authorization server by now")
        key = self._key if grant.is_bound else None
        await self._keep(await self._run(refresh(self._found, grant, key), requests))
        return True

    async def _run(self, flow: Flow[T], requests: Requester) -> T:
        """Carry out the steps of a flow."""
        outcome: Fetched | str | None = None
        try:
            while True:
                step = flow.send(outcome)
                if isinstance(step, Visit):
                    await requests.check_page("the authorization_endpoint", step.url)
                    outcome = await self._visited(step.url)
                elif isinstance(step, Deviation):
                    requests.remark(step.text)
                    outcome = None
                else:
                    outcome = await requests.fetch(step)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _visited(self, url: str) -> str:
        if self._visit is None:
            raise AuthorizationError("somebody has to log in, and nobody can here")
        return await self._visit(url)


def _is_used(grant: OAuthGrant, used: Mapping[str, str]) -> bool:
    """True if a request was sent with this very token."""
    return used.get("Authorization", "").partition(" ")[2] == grant.access_token
