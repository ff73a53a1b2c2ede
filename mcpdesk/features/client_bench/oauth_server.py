"""Authorization server and protected MCP endpoint of `oauth-bench`. Both record requests of the client."""

from __future__ import annotations

import asyncio
import secrets
import time
from enum import StrEnum
from html import escape
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from aiohttp import web
from msgspec import Struct, field

from mcpdesk.features.client_bench.bench_http import answer_message
from mcpdesk.features.client_bench.bench_report import ClientFacts, Message, add_message, short_text
from mcpdesk.features.client_bench.page_visit import HOSTS, UNDELIVERED
from mcpdesk.features.client_bench.scripted_server import (
    ScriptedReply,
    ScriptedServer,
    client_info,
    offered_revision,
)
from mcpdesk.protocol.revisions import BY_NAME, REVISIONS
from mcpdesk.recorder.masking import mask_text
from mcpdesk.testing.authorization_server import (
    ENDPOINT,
    RESOURCE_METADATA,
    Document,
    IssuedToken,
    LocalAuthorizationServer,
    TokenRefused,
    is_verified,
)

T = TypeVar("T")
SCOPE = "bench:use"
"""Scope in the challenge."""
OTHER_SCOPE = "bench:more"
"""Scope that only the metadata names."""
METADATA = "/bench/resource-metadata"
"""Path of the metadata in the challenge. The same document is also at the well-known paths."""
MAX_MESSAGES = 60
"""Maximum number of requests that are recorded."""
MAX_OBSERVATIONS = 200
"""Maximum number of requests of one kind that are checked. Further ones are ignored."""
RENEWALS = 2
"""Number of renewals after which the bench revokes an access token."""


class Probe(StrEnum):
    """Kind of a run."""

    LOGIN = "login"
    """The authorization server follows all rules."""
    WRONG_ISS = "wrong-iss"
    """The redirect has the `iss` of another authorization server."""
    NO_ISS = "no-iss"
    """The redirect lacks `iss`, which the metadata announces."""
    WRONG_STATE = "wrong-state"
    """The redirect has another `state` than the client sent."""


class Renewal(StrEnum):
    """Reason for which a client renewed a token."""

    EARLY = "early"
    """The token was still valid."""
    EXPIRED = "expired"
    """The token had expired, but the client had not used it since."""
    REJECTED = "rejected"
    """A request with the expired token was rejected."""
    REVOKED = "revoked"
    """A request with the revoked token was rejected."""


class Observations(Struct):
    """Actions of the client in one run."""

    client: ClientFacts = field(default_factory=ClientFacts)
    messages: list[Message] = []
    requests: int = 0
    """Number of requests to the MCP endpoint."""
    is_stateless: bool = False
    """True if the client uses the revision 2026-07-28."""
    metadata_paths: list[str] = []
    """Paths where clients read the metadata of the resource."""
    registrations: list[Document] = []
    authorizations: list[Document] = []
    codes: list[Document] = []
    """Token requests with a code."""
    verified: list[bool] = []
    """For each of `codes`, True if its `code_verifier` matches."""
    logins: int = 0
    renewals: list[Renewal] = []
    renewal_requests: list[Document] = []
    """Token requests with a refresh token that is known."""
    reused: int = 0
    """Number of token requests with a refresh token that was used before."""
    expired_uses: int = 0
    """Number of requests with an expired token."""
    revoked_uses: int = 0
    """Number of requests with a revoked token."""
    revocations: int = 0
    """Number of tokens that the bench revoked."""
    tokens_in_url: int = 0
    missing_tokens: int = 0
    """Number of requests without a token after a login."""
    later_logins: int = 0
    """Number of authorizations although the client had a valid refresh token."""
    is_login_revoked: bool = False
    """True if the first of `later_logins` followed the rejection of a revoked token."""
    bad_redirects: int = 0
    """Number of redirects that the client must refuse."""
    is_undelivered: bool = False
    """True if the client did not receive a redirect, because it did not listen."""
    bad_codes_used: int = 0
    """Number of token requests with a code from such a redirect."""


class BenchServer(LocalAuthorizationServer):
    """Records the requests of a client. A request that breaks a rule is accepted if this is possible."""

    def __init__(self, probe: Probe, lifetime_s: float, *, asks: bool) -> None:
        """If `asks`, a person confirms each login on a page. Access tokens live `lifetime_s` seconds."""
        super().__init__(lifetime_s, (SCOPE, OTHER_SCOPE))
        self.probe = probe
        self.observations = Observations()
        self.changed = asyncio.Event()
        """Set after each request."""
        self._asks = asks
        self._began = time.monotonic()
        self._server = ScriptedServer(REVISIONS, is_http=True)
        self._newest_token: IssuedToken | None = None
        """Newest token. Its refresh token is valid."""
        self._bad_codes = set[str]()
        """Codes of redirects that the client must refuse."""
        self._confirmations: dict[str, str] = {}
        """Query of the authorization request for each login that a person must confirm, by a random key."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        try:
            response = await self._response(request)
        finally:
            self.changed.set()
        return response

    async def _response(self, request: web.BaseRequest) -> web.StreamResponse:
        self._update_client(user_agent=request.headers.get("User-Agent", ""))
        if "access_token" in request.query:
            self.observations.tokens_in_url += 1
        if request.path == ENDPOINT:
            return await self._mcp_response(request)
        if request.path in (METADATA, RESOURCE_METADATA, f"{RESOURCE_METADATA}{ENDPOINT}"):
            _add(self.observations.metadata_paths, request.path)
            response: web.Response | None = self.document("resource", self.resource_metadata())
        elif request.path == "/confirm" and request.method == "POST":
            return await self._confirm(request)
        elif request.path == UNDELIVERED:
            self.observations.is_undelivered = True
            response = web.Response(status=204)
        else:
            response = await self.answer(request)
        response = response or web.Response(status=404)
        self._record(f"{request.method} {request.path}", f"HTTP {response.status}")
        return response

    def server_metadata(self) -> Document:
        """Return the metadata, which also offers client ID metadata documents."""
        return super().server_metadata() | {
            "client_id_metadata_document_supported": True,
            "scopes_supported": [SCOPE, OTHER_SCOPE],
        }

    def observe(self, kind: str, fields: Document) -> None:
        """Record a request to the authorization server."""
        observations = self.observations
        match kind:
            case "registration":
                _add(observations.registrations, fields)
                if isinstance(name := fields.get("client_name"), str):
                    self._update_client(registered=name)
            case "authorization" if fields not in observations.authorizations:
                # A repeated request is ignored, because some clients send it first to check the page.
                _add(observations.authorizations, fields)
                if self._newest_token is not None and not self._newest_token.is_renewed:
                    is_first_later_login = not observations.later_logins
                    observations.is_login_revoked |= is_first_later_login and observations.revoked_uses > 0
                    observations.later_logins += 1

    async def login_page(self, request: web.BaseRequest, authorization: Document) -> web.Response | None:
        """Return a page with a button if a person must still confirm the login, else None."""
        if not self._asks:
            return None
        key = authorization.get("bench_confirmation", "")
        if key in self._confirmations:
            del self._confirmations[key]
            del authorization["bench_confirmation"]
            return None
        key = secrets.token_urlsafe(16)
        self._confirmations[key] = request.query_string
        while len(self._confirmations) > MAX_MESSAGES:
            del self._confirmations[next(iter(self._confirmations))]
        client = escape(short_text(authorization.get("client_id")))
        text = (
            "<!doctype html><title>mcpdesk oauth-bench</title>"
            f"<p>The client {client} wants to log in to the bench."
            f'<form method="post" action="/confirm"><input type="hidden" name="key" value="{key}">'
            "<button>Log in</button></form>"
        )
        return web.Response(text=text, content_type="text/html", headers={"Cache-Control": "no-store"})

    async def _confirm(self, request: web.BaseRequest) -> web.Response:
        """Continue a login that a person has confirmed."""
        fields = dict(parse_qsl((await request.read()).decode("utf-8", "replace")))
        key = fields.get("key", "")
        if key not in self._confirmations:
            return web.Response(status=400, text="This login is over. Begin again in the client.")
        query = f"{self._confirmations[key]}&{urlencode({'bench_confirmation': key})}"
        return web.Response(status=303, headers={"Location": f"/authorize?{query}"})

    def redirect_problem(self, authorization: Document) -> str:
        """Return the reason why the browser cannot be redirected to the client, or "".

        The document of a client ID is not read, so such a client can be redirected to this machine only.
        """
        if problem := super().redirect_problem(authorization):
            return problem
        is_registered = authorization.get("client_id") in self._clients
        is_local = _is_local(authorization["redirect_uri"])
        return "" if is_registered or is_local else "the redirect_uri must be on this machine"

    def redirect(self, authorization: Document, code: str) -> Document:
        """Return the parameters of the redirect, with the error of the probe."""
        parameters = super().redirect(authorization, code)
        match self.probe:
            case Probe.LOGIN:
                return parameters
            case Probe.WRONG_ISS:
                parameters["iss"] = "https://other-issuer.example"
            case Probe.NO_ISS:
                del parameters["iss"]
            case Probe.WRONG_STATE:
                parameters["state"] = "state-of-another-login"
        self.observations.bad_redirects += 1
        self._bad_codes.add(code)
        return parameters

    def check_code(self, authorization: Document, token_request: Document) -> None:
        """Record the token request of a login, and accept it."""
        _add(self.observations.codes, token_request)
        _add(self.observations.verified, is_verified(authorization, token_request))

    def scopes_of(self, token_request: Document) -> tuple[str, ...]:
        """Return the scopes of a new token. Raises: TokenRefused."""
        if token_request.get("code") in self._bad_codes:
            self.observations.bad_codes_used += 1
        if token_request.get("grant_type") == "refresh_token":
            return self._renewal_scopes(token_request)
        scopes = super().scopes_of(token_request)
        self.observations.logins += 1
        return scopes

    def _renewal_scopes(self, token_request: Document) -> tuple[str, ...]:
        """Record a token request with a refresh token, and return the scopes. Raises: TokenRefused."""
        tokens = {each.refresh_token: each for each in self._tokens.values()}
        token = tokens.get(token_request.get("refresh_token", ""))
        if token is None:
            raise TokenRefused("invalid_grant", "the refresh token is unknown")
        if token.is_renewed:
            self.observations.reused += 1
            self._newest_token = None
            return self.check_refresh(token.refresh_token).scopes  # refuses, and deletes all tokens
        _add(self.observations.renewal_requests, token_request)
        _add(self.observations.renewals, self._renewal_reason(token))
        self.check_refresh(token.refresh_token)
        return token.scopes

    def _renewal_reason(self, token: IssuedToken) -> Renewal:
        if token.is_revoked and self.observations.revoked_uses:
            return Renewal.REVOKED
        if not token.has_expired:
            return Renewal.EARLY
        return Renewal.REJECTED if self.observations.expired_uses else Renewal.EXPIRED

    def issue(self, scopes: tuple[str, ...]) -> IssuedToken:
        """Return a new token."""
        self._newest_token = super().issue(scopes)
        return self._newest_token

    async def _mcp_response(self, request: web.BaseRequest) -> web.Response:
        """Answer a request to the MCP endpoint, if it has a valid token."""
        observations, token = self.observations, self.presented(request)
        observations.requests += 1
        version = BY_NAME.get(request.headers.get("MCP-Protocol-Version", ""))
        observations.is_stateless |= version is not None and version.is_stateless
        error = reason = ""
        if token is None and "Authorization" in request.headers:
            error = reason = "invalid_token"
        elif token is None:
            reason = "no token"
            observations.missing_tokens += observations.logins > 0
        elif token.is_revoked:
            observations.revoked_uses += 1
            error, reason = "invalid_token", "token revoked"
        elif token.has_expired:
            observations.expired_uses += 1
            error = reason = "invalid_token"
        if token is None or reason:
            self._record(f"{request.method} {ENDPOINT}", f"HTTP 401: {reason}")
            return self._challenge(error)
        must_revoke = len(observations.renewals) >= RENEWALS and not observations.revocations
        if must_revoke and token is self._newest_token:
            token.is_revoked = True  # from the next request
            observations.revocations += 1
        return await answer_message(self._server, request, self._record_message)

    def _challenge(self, error: str) -> web.Response:
        """Return the response to a request without a valid token. `error` is the code, or ""."""
        parameters = [f'error="{error}"'] if error else []
        parameters += [f'resource_metadata="{self.origin}{METADATA}"', f'scope="{SCOPE}"']
        return web.Response(status=401, headers={"WWW-Authenticate": f"Bearer {', '.join(parameters)}"})

    def _record_message(self, message: Any, reply: ScriptedReply) -> None:
        """Record a message to the MCP endpoint, and the client's description of itself."""
        info = client_info(message)
        if name := short_text(info.get("name")):
            self._update_client(name=name, version=short_text(info.get("version")))
        method = short_text(message.get("method")) if isinstance(message, dict) else ""
        revision = offered_revision(message)
        revision_note = f" ({revision})" if revision else ""
        self._record(f"{method or 'a message'}{revision_note}", reply.text)

    def _update_client(
        self, *, name: str = "", version: str = "", user_agent: str = "", registered: str = ""
    ) -> None:
        """Update the description of the client. `registered` is the name in its dynamic registration."""
        client = self.observations.client
        self.observations.client = ClientFacts(
            short_text(name or client.name or registered),
            short_text(version or client.version),
            short_text(client.user_agent or user_agent),
        )

    def _record(self, sent: str, answer: str) -> None:
        """Add a request and its answer to the messages of the report, with secrets masked."""
        at_s = round(time.monotonic() - self._began, 3)
        message = Message(at_s, short_text(mask_text(sent)), mask_text(answer))
        add_message(self.observations.messages, message, MAX_MESSAGES)


def _add(observations: list[T], observation: T) -> None:
    """Add an observation, unless the list already has `MAX_OBSERVATIONS`."""
    if len(observations) < MAX_OBSERVATIONS:
        observations.append(observation)


def _is_local(url: str) -> bool:
    """Return True if a URL is on this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "http" and parts.hostname in HOSTS
