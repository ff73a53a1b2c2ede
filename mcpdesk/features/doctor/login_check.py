"""Check of the login at one server: each step, with the rules that it follows or breaks.

Source: MCP basic/authorization; OAuth 2.1; RFC 6750, 7591, 8414, 8707, 9207, 9728.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from mcpdesk.client.oauth.authorizer import Authorizer, run_flow
from mcpdesk.client.oauth.browser_login import WatchedRequests, log_in
from mcpdesk.client.oauth.discovery import (
    canonical_url,
    find_authorization_server,
    find_own_server,
    find_resource,
    parse_challenge,
)
from mcpdesk.client.oauth.values import (
    AuthorizationServer,
    Challenge,
    Fetch,
    FetchResult,
    Flow,
    OAuthGrant,
    ResourceMetadata,
)
from mcpdesk.errors import AuthorizationError, CallError, LoginUnavailable
from mcpdesk.features.doctor.login_report import (
    VERSION,
    LoginReport,
    LoginRule,
    LoginStep,
    RuleState,
    StepName,
    StepState,
)
from mcpdesk.protocol.codec import encode
from mcpdesk.recorder.masking import MASK, mask_text

if TYPE_CHECKING:
    from mcpdesk.client.http_transports import HttpRequests
    from mcpdesk.client.oauth.login_options import LoginOptions
    from mcpdesk.client.oauth.stored_grants import StoredGrants

AUTHORIZATION = "MCP 2026-07-28 basic/authorization"
REGISTRATION = "MCP 2026-07-28 basic/authorization/client-registration"
PING = encode({"jsonrpc": "2.0", "id": 1, "method": "ping"})
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
MAX_VALUE_LENGTH = 300
"""Maximum number of characters of a value in the report."""
T = TypeVar("T")


class LoginPlan(Struct, frozen=True):
    """Server whose login is checked."""

    target: str
    """Name of the server for the person, as in `mcpdesk login`."""
    url: str
    options: LoginOptions
    store: StoredGrants
    renews: bool = False
    """True to renew the token even if it is valid."""
    show: Callable[[str], None] | None = None
    """Function that shows the address of a login page to a person. None if no person may log in now."""
    timeout_s: float = 300.0
    """Time limit for a person's login."""
    request_timeout_s: float = 8.0
    """Time limit for an answer of the server."""
    account: str = ""

    @property
    def command(self) -> str:
        """Command that logs in."""
        account = f" --account {shlex.quote(self.account)}" if self.account else ""
        return f"mcpdesk login {shlex.quote(self.target)}{account}"


async def check_login(plan: LoginPlan) -> LoginReport:
    """Check each step of the login. A person logs in only if `plan.show` is given and this is necessary.

    Without a login, no client is registered. The token is renewed if it has expired or was rejected, or if
    `plan.renews` is True.
    """
    from mcpdesk.client.http_transports import HttpRequests

    start_s = time.monotonic()
    requests = HttpRequests(plan.url, {})
    check = _Check(plan, requests)
    try:
        await check.run()
    finally:
        await requests.close()
    steps = [check.steps.get(name) or LoginStep(name, StepState.NOT_REACHED) for name in StepName]
    is_broken = any(each.state is StepState.BROKEN for each in steps)
    return LoginReport(
        VERSION,
        check.is_usable and not is_broken,
        plan.target,
        mask_text(plan.url),
        check.needs_person,
        plan.command if check.needs_person else "",
        steps,
        round(time.monotonic() - start_s, 3),
    )


class _Check:
    """State of one check."""

    def __init__(self, plan: LoginPlan, requests: HttpRequests) -> None:
        self._plan = plan
        self._requests = requests
        self.steps: dict[StepName, LoginStep] = {}
        self.is_usable = False
        """True if the server accepts a request with the token, or needs none."""
        self.needs_person = False
        self._challenge = Challenge()
        self._fetched: list[tuple[Fetch, FetchResult]] = []
        self._deviations: list[str] = []
        self._watched = WatchedRequests(requests, self._note, self._remark)
        self._reported_faults = set[str]()
        """Faults of all steps. Each is reported once, although discovery is repeated at a login."""
        self._visited = ""
        """Address of the login page that a person has visited."""

    async def run(self) -> None:
        """Run the steps in order, until one is broken."""
        if not await self._request():
            return
        resource = await self._resource()
        if resource is None:
            return
        server = await self._server(resource)
        if server is None:
            return
        is_possible = await self._registration(server)
        if not await self._token(server):
            return
        if self.is_usable:
            self._authorization(server, resource, StepState.NOT_NEEDED)
            return
        is_machine = self._plan.options.is_machine
        if is_possible and (is_machine or self._plan.show is not None):
            await self._log_in(server, resource)
        elif is_possible:
            self.needs_person = True
            self._authorization(server, resource, StepState.NEEDS_PERSON)

    # steps

    async def _request(self) -> bool:
        """Send a request without a token. Return True if the server asks for one."""
        try:
            status, challenges = await self._answer(HEADERS)
        except CallError as error:
            hint = "Check the URL, and whether the server is running."
            self._put(StepName.REQUEST, {}, [_broken("An MCP server answers at the URL.", "", error, hint)])
            return False
        found = parse_challenge(challenges)
        values = {"status": f"HTTP {status}"}
        if status != 401 and found is None:
            if status in (403, 407):
                rule = "A request without a token is answered with HTTP 401."
                hint = "The server, or a proxy before it, denies access without naming a login."
                broken = LoginRule(RuleState.BROKEN, rule, "RFC 6750, 3.1", f"HTTP {status}", hint)
                self._put(StepName.REQUEST, values, [broken])
                return False
            self.is_usable = True
            values["login"] = "the server accepts requests without a token"
            self._put(StepName.REQUEST, values, [])
            for name in list(StepName)[1:]:
                self.steps[name] = LoginStep(name, StepState.NOT_NEEDED)
            return False
        self._challenge = found or Challenge()
        values |= {"scheme": self._challenge.scheme, "resource_metadata": self._challenge.metadata_url}
        values["scope"] = self._challenge.scope
        rules = [
            _rule(
                status == 401,
                "A request without a token is answered with HTTP 401.",
                "RFC 6750, 3.1",
                f"HTTP {status}",
                "Answer with 401 if the token is missing, and with 403 only if its scopes are insufficient.",
            ),
            _rule(
                found is not None,
                "The answer has `WWW-Authenticate` with the scheme Bearer or DPoP.",
                "RFC 6750, 3",
                found.scheme if found else "no such header",
                "Add `WWW-Authenticate: Bearer resource_metadata=...` to the answer.",
            ),
        ]
        self._put(StepName.REQUEST, values, rules)
        return True

    async def _resource(self) -> ResourceMetadata | None:
        rule, source = "The metadata names the server and its authorization servers.", "RFC 9728, 3.3"
        try:
            found = await self._run(find_resource(self._plan.url, self._challenge))
        except CallError as error:
            hint = "Correct the document that the server publishes, or the URL in `WWW-Authenticate`."
            self._put(StepName.RESOURCE, self._addresses(), [_broken(rule, source, error, hint)])
            return None
        values = self._addresses()
        if found is None:
            rule = "The server publishes its protected resource metadata."
            hint = "Clients of newer revisions cannot log in. Publish /.well-known/oauth-protected-resource."
            observed = "none; the server itself is used as authorization server, as in 2025-03-26"
            source = f"RFC 9728, 3; {AUTHORIZATION}"
            self._put(StepName.RESOURCE, values, [LoginRule(RuleState.WARNING, rule, source, observed, hint)])
            return ResourceMetadata(canonical_url(self._plan.url), ())
        values |= {
            "resource": found.resource,
            "authorization_servers": " ".join(found.issuers),
            "scopes_supported": " ".join(found.scopes),
        }
        is_same = found.resource.rstrip("/") == canonical_url(self._plan.url).rstrip("/")
        rules = [
            _rule(
                is_same,
                "`resource` is the URL of the server.",
                source,
                found.resource if is_same else f"{found.resource}, a parent of the URL",
                "Some clients require the exact URL.",
                otherwise=RuleState.WARNING,
            ),
            LoginRule(
                RuleState.FOLLOWED,
                "The metadata names at least one authorization server.",
                AUTHORIZATION,
                f"{len(found.issuers)}",
            ),
        ]
        self._put(StepName.RESOURCE, values, rules)
        return found

    async def _server(self, resource: ResourceMetadata) -> AuthorizationServer | None:
        is_own = not resource.issuers
        flow = find_own_server(self._plan.url, self._challenge.scope) if is_own else None
        try:
            server = await self._run(flow or find_authorization_server(resource.issuers[0]))
        except CallError as error:
            rule, source = "The authorization server publishes valid metadata.", "RFC 8414, 3"
            hint = error.hint if isinstance(error, LoginUnavailable) else ""
            hint = hint or "Correct the metadata at the authorization server, or `authorization_servers`."
            self._put(StepName.SERVER, self._addresses(), [_broken(rule, source, error, hint)])
            return None
        values = self._addresses() | {
            "issuer": server.issuer,
            "authorization_endpoint": server.authorization_endpoint,
            "token_endpoint": server.token_endpoint,
            "registration_endpoint": server.registration_endpoint,
            "client_id_metadata_document": "supported" if server.accepts_client_metadata else "not supported",
            "client_authentication": " ".join(server.client_authentication),
        }
        # A machine needs no PKCE, and a person can accept metadata that does not mention it.
        is_optional = self._plan.options.is_machine or (
            server.has_pkce is None and self._plan.options.assumes_pkce
        )
        rules = [
            _rule(
                not server.issuer_as_named,
                "`issuer` equals the issuer that the server names.",
                "RFC 8414, 3.3",
                server.issuer,
                "Other clients refuse it. Use the same text in both documents.",
                otherwise=RuleState.WARNING,
            ),
            _rule(
                server.has_pkce is True,
                "The metadata announces PKCE with S256.",
                AUTHORIZATION,
                {True: "S256", False: "without S256", None: "not mentioned"}[server.has_pkce],
                "Add code_challenge_methods_supported with S256. If the provider documents PKCE, use "
                "--assume-pkce.",
                otherwise=RuleState.WARNING if is_optional else RuleState.BROKEN,
            ),
            _rule(
                server.sends_issuer,
                "The authorization server sends `iss` with the redirect, and announces it.",
                "RFC 9207, 2.3",
                "announced" if server.sends_issuer else "not announced",
                "Without `iss`, clients cannot detect a mix-up of two authorization servers.",
                otherwise=RuleState.WARNING,
            ),
        ]
        # The only fault that does not stop this step is that of `issuer_as_named`.
        self._put(StepName.SERVER, values, rules)
        return server

    async def _registration(self, server: AuthorizationServer) -> bool:
        """Report the kind of the registration. Return True if the client has an id or can get one."""
        options = self._plan.options
        registered_client = await asyncio.to_thread(self._plan.store.client, server.issuer)
        rule = "The client uses a registered id, a client ID metadata document, or dynamic registration."
        state, hint = RuleState.FOLLOWED, ""
        if options.is_machine:
            kind, client = "given (credentials of the client)", options.client_id
        elif options.client_id:
            kind, client = "given (registered by you)", options.client_id
        elif options.client_metadata_url and server.accepts_client_metadata:
            kind, client = "client ID metadata document", options.client_metadata_url
        elif registered_client is not None:
            kind, client = "dynamic, registered before", registered_client.id
        elif server.registration_endpoint:
            kind, client = "dynamic, at the next login", ""
        else:
            kind, client, state = "none", "", RuleState.BROKEN
            hint = f"Register a client at the provider, and use its id: {self._plan.command} --client-id ID."
        values = {"kind": kind, "client_id": client}
        if state is RuleState.FOLLOWED and "dynamic" in kind:
            values["note"] = "dynamic registration is deprecated in 2026-07-28"
        rules = [LoginRule(state, rule, REGISTRATION, kind, hint)]
        if options.client_metadata_url and not server.accepts_client_metadata and not options.client_id:
            observed = "the authorization server does not support it, so the next kind is used"
            rule = "A given client ID metadata document is used."
            rules.append(LoginRule(RuleState.WARNING, rule, REGISTRATION, observed))
        issuer = options.client_issuer.rstrip("/")
        if issuer not in ("", server.issuer.rstrip("/")):
            rule = "The id is sent only to the authorization server that issued it."
            observed = f"registered at {options.client_issuer}, but the server trusts {server.issuer}"
            hint = "Register a client at this issuer."
            rules.append(LoginRule(RuleState.BROKEN, rule, REGISTRATION, observed, hint))
        self._put(StepName.REGISTRATION, values, rules)
        return all(each.state is not RuleState.BROKEN for each in rules)

    def _authorization(
        self,
        server: AuthorizationServer,
        resource: ResourceMetadata,
        state: StepState,
        rules: Iterable[LoginRule] = (),
    ) -> None:
        """Report the authorization request that was sent, or would be."""
        if self._plan.options.is_machine:
            values = {"login": "by the client itself, without a person"}
            self.steps[StepName.AUTHORIZATION] = LoginStep(StepName.AUTHORIZATION, state, values, list(rules))
            return
        requested_scopes = self._challenge.scope or " ".join(resource.scopes)
        values = {
            "authorization_endpoint": server.authorization_endpoint,
            "response_type": "code",
            "code_challenge_method": "S256",
            "resource": resource.resource,
            "scope": self._plan.options.scope or requested_scopes,
            "iss": "required in the redirect" if server.sends_issuer else "compared if it is sent",
        }
        if self._visited:
            sent = dict(parse_qsl(urlsplit(self._visited).query))
            values |= {name: sent[name] for name in sent if name in ("scope", "resource", "client_id")}
            values |= {name: MASK for name in ("state", "code_challenge") if name in sent}
            rules = [*_request_rules(sent, resource.resource), *rules]
        step = LoginStep(StepName.AUTHORIZATION, state, _masked_values(values), list(rules))
        self.steps[StepName.AUTHORIZATION] = step

    async def _token(self, server: AuthorizationServer) -> bool:
        """Report the stored token, and renew it if needed. Return False if no token can be stored."""
        store = self._plan.store
        try:
            await asyncio.to_thread(store.check)
        except AuthorizationError as error:
            self._put(StepName.TOKEN, {}, [_broken("mcpdesk can read and store tokens.", "", error)])
            return False
        grant = await asyncio.to_thread(store.grant, self._plan.url)
        if grant is None:
            self._put(StepName.TOKEN, {"token": "none is stored"}, [], StepState.NOT_NEEDED)
            self._put(StepName.REFRESH, {}, [], StepState.NOT_NEEDED)
        else:
            await self._stored_token(grant, server)
        return True

    async def _stored_token(self, grant: OAuthGrant, server: AuthorizationServer) -> None:
        rules = self._grant_rules(grant, server)
        if any(each.state is RuleState.BROKEN for each in rules):
            self._put(StepName.TOKEN, _facts(grant), rules)
            return
        is_expired = grant.has_expired(time.time())
        accepted = None if is_expired else await self._accepts(grant)
        is_rejected = accepted is not None and accepted.state is RuleState.BROKEN
        is_new_needed = is_expired or is_rejected or self._plan.renews
        if is_new_needed and self._plan.options.is_machine and not grant.refresh_token:
            return  # the next step gets a new token with the credentials
        if is_new_needed:
            renewed = await self._refresh(grant)
            if renewed is not None:
                grant = renewed
                accepted = await self._accepts(grant)
        else:
            self._refresh_not_tried(grant)
        if accepted is not None:
            rules.append(accepted)
            self.is_usable = accepted.state is not RuleState.BROKEN
        elif is_expired:
            rule, observed = "The token is still valid.", _lifetime(grant)
            rules.append(LoginRule(RuleState.BROKEN, rule, "OAuth 2.1, 3.2.3", observed, self._log_in_hint))
        self._put(StepName.TOKEN, _facts(grant), rules)

    @property
    def _log_in_hint(self) -> str:
        return f"Log in again: {self._plan.command}"

    def _grant_rules(self, grant: OAuthGrant, server: AuthorizationServer) -> list[LoginRule]:
        requested_scopes = set(self._challenge.scope.split())
        missing_scopes = sorted(requested_scopes - set(grant.scopes)) if grant.scopes else []
        scopes = " ".join(grant.scopes)
        return [
            _rule(
                grant.issuer == server.issuer,
                "A token is used only with the authorization server that issued it.",
                AUTHORIZATION,
                grant.issuer if grant.issuer == server.issuer else f"issued by {grant.issuer}",
                self._log_in_hint,
            ),
            _rule(
                grant.expires is not None,
                "The token response has `expires_in`.",
                "OAuth 2.1, 3.2.3",
                _lifetime(grant),
                "Without it, a client learns of the end of a token only from HTTP 401.",
                otherwise=RuleState.WARNING,
            ),
            _rule(
                not missing_scopes,
                "The token has the scopes of the challenge.",
                AUTHORIZATION,
                f"missing: {' '.join(missing_scopes)}" if missing_scopes else scopes or "unknown",
                self._log_in_hint,
                otherwise=RuleState.WARNING,
            ),
        ]

    async def _accepts(self, grant: OAuthGrant) -> LoginRule:
        """Send a request with the token, and return the rule about its answer."""
        rule, source = "The server accepts a request with the token.", "RFC 6750, 2.1"
        if grant.is_bound:
            observed = "not tried: the token is bound to the key of the process that logged in"
            return LoginRule(RuleState.WARNING, rule, "RFC 9449", observed)
        headers = HEADERS | {"Authorization": f"Bearer {grant.access_token}"}
        try:
            status, challenges = await self._answer(headers)
        except CallError as error:
            return _broken(rule, source, error)
        challenge = parse_challenge(challenges) or Challenge()
        observed = " ".join(filter(None, (f"HTTP {status}", challenge.error)))
        if status == 401 or (status == 403 and challenge.error == "insufficient_scope"):
            return LoginRule(RuleState.BROKEN, rule, source, observed, self._log_in_hint)
        return LoginRule(RuleState.FOLLOWED, rule, source, observed)

    async def _refresh(self, grant: OAuthGrant) -> OAuthGrant | None:
        """Renew the token. Return the new one, or None if this is not possible."""
        if not grant.refresh_token:
            self._without_refresh_token(grant, RuleState.BROKEN)
            return None
        rule, source = "The refresh token renews the login without a person.", "OAuth 2.1, 4.3"
        authorizer = Authorizer(self._plan.url, self._plan.options, self._plan.store)
        self._deviations.clear()
        try:
            renewed = await authorizer.renew(self._watched, self._challenge)
        except CallError as error:
            values = {"refresh_token": MASK, "expires": _lifetime(grant)}
            self._put(StepName.REFRESH, values, [_broken(rule, source, error, self._log_in_hint)])
            return None
        is_rotated = renewed.refresh_token != grant.refresh_token
        is_public = not renewed.client.secret and not renewed.is_bound
        values = {
            "refresh_token": f"{MASK}, {'replaced' if is_rotated else 'unchanged'}",
            "expires": _lifetime(renewed),
        }
        rules = [
            LoginRule(RuleState.FOLLOWED, rule, source, "renewed now, and stored"),
            _rule(
                is_rotated or not is_public,
                "The refresh token of a public client is replaced at each use.",
                "OAuth 2.1, 4.3.1",
                "replaced" if is_rotated else "unchanged",
                "A stolen refresh token stays valid. Enable rotation at the authorization server.",
                otherwise=RuleState.WARNING,
            ),
        ]
        self._put(StepName.REFRESH, values, [*rules, *self._remarks()])
        return renewed

    def _refresh_not_tried(self, grant: OAuthGrant) -> None:
        if self._plan.options.is_machine and not grant.refresh_token:
            values = {"refresh_token": "none; the client gets a new token with its credentials"}
            self._put(StepName.REFRESH, values, [], StepState.NOT_NEEDED)
            return
        if not grant.refresh_token:
            self._without_refresh_token(grant, RuleState.WARNING)
            return
        values = {
            "refresh_token": MASK,
            "expires": _lifetime(grant),
            "note": "not tried, because the token is valid; --renew tries it",
        }
        self._put(StepName.REFRESH, values, [], StepState.NOT_NEEDED)

    def _without_refresh_token(self, grant: OAuthGrant, state: RuleState) -> None:
        rule = "The token response has a refresh token, so that a person logs in once."
        hint = "Request the scope offline_access with --scope, if the provider has it, and log in again."
        observed = f"none; the login ends with the token, which {_lifetime(grant)}"
        rules = [LoginRule(state, rule, "OAuth 2.1, 1.3.2", observed, hint)]
        self._put(StepName.REFRESH, {"refresh_token": "none"}, rules)

    async def _log_in(self, server: AuthorizationServer, resource: ResourceMetadata) -> None:
        """Log in, and report the steps that this reaches."""
        plan = self._plan
        self._fetched.clear()
        self._deviations.clear()

        def show(address: str) -> None:
            self._visited = address
            if plan.show is not None:
                plan.show(address)

        try:
            grant = await log_in(
                plan.url,
                plan.store,
                show,
                options=plan.options,
                timeout_s=plan.timeout_s,
                watch=self._note,
                report_deviation=self._remark,
            )
        except CallError as error:
            self._login_failed(server, resource, error)
            return
        if any(step.subject == "the registration" for step, _ in self._fetched):
            before = self.steps[StepName.REGISTRATION]
            values = {**before.values, "kind": "dynamic, registered now", "client_id": grant.client.id}
            self._put(StepName.REGISTRATION, values, before.rules)
        rule = "`state` and `iss` of the redirect match the login."
        match = LoginRule(RuleState.FOLLOWED, rule, "OAuth 2.1, 7.12; RFC 9207, 2.4", "they match")
        rules = [] if plan.options.is_machine else [match]
        self._authorization(server, resource, StepState.OK, rules)
        accepted = await self._accepts(grant)
        self.is_usable = accepted.state is not RuleState.BROKEN
        rules = [*self._grant_rules(grant, server), accepted, *self._remarks()]
        self._put(StepName.TOKEN, _facts(grant), rules)
        self._refresh_not_tried(grant)

    def _login_failed(
        self, server: AuthorizationServer, resource: ResourceMetadata, error: CallError
    ) -> None:
        """Report the step at which a login failed: the last request shows how far it came."""
        broken = _broken("The login succeeds.", "OAuth 2.1, 4.1", error)
        last = self._fetched[-1][0].subject if self._fetched else ""
        if last == "the token request":
            self._authorization(server, resource, StepState.OK)
            self._put(StepName.TOKEN, {}, [broken])
        elif last == "the registration" and not self._visited:
            before = self.steps[StepName.REGISTRATION]
            self._put(StepName.REGISTRATION, before.values, [*before.rules, broken])
        else:
            self._authorization(server, resource, StepState.BROKEN, [broken])

    # helpers

    def _note(self, step: Fetch, answer: FetchResult) -> None:
        self._fetched.append((step, answer))

    def _remark(self, text: str) -> None:
        if text not in self._reported_faults:
            self._reported_faults.add(text)
            self._deviations.append(text)

    async def _answer(self, headers: Mapping[str, str]) -> tuple[int, list[str]]:
        """Send a request. Return the status and the challenges of the answer.

        Raises: CallError, also for an answer that does not come from an MCP server.
        """
        limit_s = self._plan.request_timeout_s
        try:
            async with (
                asyncio.timeout(limit_s),
                self._requests.answered("POST", headers, PING, follows_redirects=True) as answer,
            ):
                # The status 404 with JSON is an answer: the method is unknown.
                is_missing = answer.status in (404, 405) and answer.content_type != "application/json"
                if 300 <= answer.status < 400 or answer.status >= 500 or is_missing:
                    raise CallError(f"HTTP {answer.status}")
                return answer.status, answer.headers.getall("WWW-Authenticate", [])
        except TimeoutError:
            raise CallError(f"no answer within {limit_s:g} s") from None

    async def _run(self, flow: Flow[T]) -> T:
        """Run the requests of a flow, and return its result. Raises: CallError."""
        self._fetched.clear()
        self._deviations.clear()
        return await run_flow(flow, self._watched)

    def _addresses(self) -> dict[str, str]:
        """Return the requests of the step, with their results."""
        parts = [f"{step.url} (HTTP {answer.status})" for step, answer in self._fetched]
        return {"requests": ", ".join(parts)} if parts else {}

    def _remarks(self) -> list[LoginRule]:
        """Return the faults that did not stop the step."""
        rule = "The server follows the specifications."
        return [LoginRule(RuleState.WARNING, rule, "", masked_value(text)) for text in self._deviations]

    def _put(
        self,
        name: StepName,
        values: dict[str, str],
        rules: list[LoginRule],
        state: StepState | None = None,
    ) -> None:
        """Store the result of a step. Its state is that of its worst rule, unless `state` is given."""
        states = {each.state for each in rules}
        worst = StepState.WARNING if RuleState.WARNING in states else StepState.OK
        worst = StepState.BROKEN if RuleState.BROKEN in states else worst
        self.steps[name] = LoginStep(name, state or worst, _masked_values(values), rules)


def _rule(
    is_followed: bool,
    rule: str,
    source: str,
    observed: str,
    hint: str,
    *,
    otherwise: RuleState = RuleState.BROKEN,
) -> LoginRule:
    observed = masked_value(observed)
    if is_followed:
        return LoginRule(RuleState.FOLLOWED, rule, source, observed)
    return LoginRule(otherwise, rule, source, observed, hint)


def _request_rules(sent: Mapping[str, str], resource: str) -> list[LoginRule]:
    """Return the rules about the authorization request that was sent."""
    method, sent_resource = sent.get("code_challenge_method", "none"), sent.get("resource", "none")
    hint = "This is a bug of mcpdesk."
    return [
        _rule(method == "S256", "The request uses PKCE with S256.", "OAuth 2.1, 4.1.1", method, hint),
        _rule(
            sent_resource == resource, "The request names the resource.", "RFC 8707, 2", sent_resource, hint
        ),
    ]


def _broken(rule: str, source: str, error: CallError, hint: str = "") -> LoginRule:
    """Return the rule that an error is about."""
    if isinstance(error, AuthorizationError):
        source, hint = error.clause or source, error.hint or hint
    observed = masked_value(error.message)
    return LoginRule(RuleState.BROKEN, rule, source, observed, hint or str(getattr(error, "hint", "")))


def _masked_values(values: dict[str, str]) -> dict[str, str]:
    """Return the values that are not empty, masked and cut."""
    return {name: masked_value(text) for name, text in values.items() if text}


def _facts(grant: OAuthGrant) -> dict[str, str]:
    return {
        "access_token": MASK,
        "token_type": "DPoP" if grant.is_bound else "Bearer",
        "expires": _lifetime(grant),
        "scope": " ".join(grant.scopes),
        "issuer": grant.issuer,
        "resource": grant.resource,
    }


def _lifetime(grant: OAuthGrant) -> str:
    """Return a text such as `expires in 12 min`."""
    if grant.expires is None:
        return "has no known end"
    left_s = round(grant.expires - time.time())
    amount = f"{abs(left_s)} s" if abs(left_s) < 120 else f"{abs(left_s) // 60} min"
    return f"expires in {amount}" if left_s > 0 else f"expired {amount} ago"


def masked_value(text: str) -> str:
    """Return the beginning of a value. It is cut after its secrets are masked, because the beginning of a
    secret may not be recognized as one.
    """
    return mask_text(text)[:MAX_VALUE_LENGTH]
