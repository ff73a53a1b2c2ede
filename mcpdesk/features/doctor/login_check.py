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
    """Function that shows the address of a login page to a person, or None if no person may log in now."""
    timeout_s: float = 300.0
    """Time limit in seconds for a person's login."""
    request_timeout_s: float = 8.0
    """Time limit in seconds for an answer of the server."""
    account: str = ""

    @property
    def command(self) -> str:
        """Command that logs in."""
        account = f" --account {shlex.quote(self.account)}" if self.account else ""
        return f"mcpdesk login {shlex.quote(self.target)}{account}"


async def check_login(plan: LoginPlan) -> LoginReport:
    """Check each step of the login. A person logs in only if this is necessary and `plan.show` is not None.

    Without a login, no client is registered. The token is renewed if it has expired or was rejected, or if
    `plan.renews` is True.
    """
    from mcpdesk.client.http_transports import HttpRequests

    began = time.monotonic()
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
        round(time.monotonic() - began, 3),
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
        """Requests of the current step, with their results."""
        self._deviations: list[str] = []
        """Faults that did not stop the current step."""
        self._watched = WatchedRequests(requests, self._record_fetch, self._add_deviation)
        self._reported_deviations = set[str]()
        """Deviations of all steps. Each is reported once, although discovery is repeated at a login."""
        self._login_address = ""
        """Address of the login page that was shown to a person, or ""."""

    async def run(self) -> None:
        """Run the steps in order, until one is broken."""
        if not await self._check_request():
            return
        resource = await self._check_resource()
        if resource is None:
            return
        server = await self._check_server(resource)
        if server is None:
            return
        can_log_in = await self._check_registration(server)
        if not await self._check_token(server):
            return
        if self.is_usable:
            self._report_authorization(server, resource, StepState.NOT_NEEDED)
            return
        is_machine = self._plan.options.is_machine
        if can_log_in and (is_machine or self._plan.show is not None):
            await self._log_in(server, resource)
        elif can_log_in:
            self.needs_person = True
            self._report_authorization(server, resource, StepState.NEEDS_PERSON)

    # Steps

    async def _check_request(self) -> bool:
        """Send a request without a token. Return True if the server asks for one."""
        try:
            status, challenges = await self._send(HEADERS)
        except CallError as error:
            rule = "An MCP server answers at the URL."
            hint = "Check the URL, and whether the server is running."
            self._store(StepName.REQUEST, {}, [_broken_rule(rule, "", error, hint)])
            return False
        challenge = parse_challenge(challenges)
        values = {"status": f"HTTP {status}"}
        if status != 401 and challenge is None:
            if status in (403, 407):
                rule = "A request without a token is answered with HTTP 401."
                hint = "The server, or a proxy before it, denies access without naming a login."
                broken = LoginRule(RuleState.BROKEN, rule, "RFC 6750, 3.1", f"HTTP {status}", hint)
                self._store(StepName.REQUEST, values, [broken])
                return False
            self.is_usable = True
            values["login"] = "the server accepts requests without a token"
            self._store(StepName.REQUEST, values, [])
            for name in list(StepName)[1:]:
                self.steps[name] = LoginStep(name, StepState.NOT_NEEDED)
            return False
        self._challenge = challenge or Challenge()
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
                challenge is not None,
                "The answer has `WWW-Authenticate` with the scheme Bearer or DPoP.",
                "RFC 6750, 3",
                challenge.scheme if challenge else "no such header",
                "Add `WWW-Authenticate: Bearer resource_metadata=...` to the answer.",
            ),
        ]
        self._store(StepName.REQUEST, values, rules)
        return True

    async def _check_resource(self) -> ResourceMetadata | None:
        """Read the metadata of the server. Return None if it is invalid."""
        rule, source = "The metadata names the server and its authorization servers.", "RFC 9728, 3.3"
        try:
            metadata = await self._run(find_resource(self._plan.url, self._challenge))
        except CallError as error:
            hint = "Correct the document that the server publishes, or the URL in `WWW-Authenticate`."
            self._store(StepName.RESOURCE, self._request_values(), [_broken_rule(rule, source, error, hint)])
            return None
        values = self._request_values()
        if metadata is None:
            rule = "The server publishes its protected resource metadata."
            hint = "Clients of newer revisions cannot log in. Publish /.well-known/oauth-protected-resource."
            observed = "none; the server itself is used as authorization server, as in 2025-03-26"
            source = f"RFC 9728, 3; {AUTHORIZATION}"
            warning = LoginRule(RuleState.WARNING, rule, source, observed, hint)
            self._store(StepName.RESOURCE, values, [warning])
            return ResourceMetadata(canonical_url(self._plan.url), ())
        values |= {
            "resource": metadata.resource,
            "authorization_servers": " ".join(metadata.issuers),
            "scopes_supported": " ".join(metadata.scopes),
        }
        is_same = metadata.resource.rstrip("/") == canonical_url(self._plan.url).rstrip("/")
        rules = [
            _rule(
                is_same,
                "`resource` is the URL of the server.",
                source,
                metadata.resource if is_same else f"{metadata.resource}, a parent of the URL",
                "Some clients require the exact URL.",
                otherwise=RuleState.WARNING,
            ),
            LoginRule(
                RuleState.FOLLOWED,
                "The metadata names at least one authorization server.",
                AUTHORIZATION,
                f"{len(metadata.issuers)}",
            ),
        ]
        self._store(StepName.RESOURCE, values, rules)
        return metadata

    async def _check_server(self, resource: ResourceMetadata) -> AuthorizationServer | None:
        """Read the metadata of the authorization server. Return None if it is missing or invalid."""
        is_own = not resource.issuers
        flow = find_own_server(self._plan.url, self._challenge.scope) if is_own else None
        try:
            server = await self._run(flow or find_authorization_server(resource.issuers[0]))
        except CallError as error:
            rule, source = "The authorization server publishes valid metadata.", "RFC 8414, 3"
            hint = error.hint if isinstance(error, LoginUnavailable) else ""
            hint = hint or "Correct the metadata at the authorization server, or `authorization_servers`."
            self._store(StepName.SERVER, self._request_values(), [_broken_rule(rule, source, error, hint)])
            return None
        values = self._request_values() | {
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
        # The only possible deviation is that of `issuer_as_named`, and the first rule reports it.
        self._store(StepName.SERVER, values, rules)
        return server

    async def _check_registration(self, server: AuthorizationServer) -> bool:
        """Report how the client gets its id. Return True if it has an id or can get one."""
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
        self._store(StepName.REGISTRATION, values, rules)
        return all(each.state is not RuleState.BROKEN for each in rules)

    def _report_authorization(
        self,
        server: AuthorizationServer,
        resource: ResourceMetadata,
        state: StepState,
        rules: Iterable[LoginRule] = (),
    ) -> None:
        """Report the authorization request that was sent, or that a login would send."""
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
        if self._login_address:
            parameters = dict(parse_qsl(urlsplit(self._login_address).query))
            shown_names = ("scope", "resource", "client_id")
            values |= {name: parameters[name] for name in shown_names if name in parameters}
            values |= {name: MASK for name in ("state", "code_challenge") if name in parameters}
            rules = [*_request_rules(parameters, resource.resource), *rules]
        step = LoginStep(StepName.AUTHORIZATION, state, _masked_values(values), list(rules))
        self.steps[StepName.AUTHORIZATION] = step

    async def _check_token(self, server: AuthorizationServer) -> bool:
        """Report the stored token, and renew it if needed. Return False if no token can be stored."""
        store = self._plan.store
        try:
            await asyncio.to_thread(store.check)
        except AuthorizationError as error:
            self._store(StepName.TOKEN, {}, [_broken_rule("mcpdesk can read and store tokens.", "", error)])
            return False
        grant = await asyncio.to_thread(store.grant, self._plan.url)
        if grant is None:
            self._store(StepName.TOKEN, {"token": "none is stored"}, [], StepState.NOT_NEEDED)
            self._store(StepName.REFRESH, {}, [], StepState.NOT_NEEDED)
        else:
            await self._check_stored_token(grant, server)
        return True

    async def _check_stored_token(self, grant: OAuthGrant, server: AuthorizationServer) -> None:
        """Use the stored token, and renew it if needed."""
        rules = self._grant_rules(grant, server)
        if any(each.state is RuleState.BROKEN for each in rules):
            self._store(StepName.TOKEN, _grant_values(grant), rules)
            return
        is_expired = grant.has_expired(time.time())
        acceptance = None if is_expired else await self._acceptance_rule(grant)
        is_rejected = acceptance is not None and acceptance.state is RuleState.BROKEN
        needs_new_token = is_expired or is_rejected or self._plan.renews
        if needs_new_token and self._plan.options.is_machine and not grant.refresh_token:
            return  # the next step gets a new token with the credentials
        if needs_new_token:
            renewed = await self._refresh(grant)
            if renewed is not None:
                grant = renewed
                acceptance = await self._acceptance_rule(grant)
        else:
            self._report_unused_refresh(grant)
        if acceptance is not None:
            rules.append(acceptance)
            self.is_usable = acceptance.state is not RuleState.BROKEN
        elif is_expired:
            rule, observed = "The token is still valid.", _lifetime(grant)
            rules.append(LoginRule(RuleState.BROKEN, rule, "OAuth 2.1, 3.2.3", observed, self._log_in_hint))
        self._store(StepName.TOKEN, _grant_values(grant), rules)

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

    async def _acceptance_rule(self, grant: OAuthGrant) -> LoginRule:
        """Send a request with the token. Return the rule that the server accepts it."""
        rule, source = "The server accepts a request with the token.", "RFC 6750, 2.1"
        if grant.is_bound:
            observed = "not tried: the token is bound to the key of the process that logged in"
            return LoginRule(RuleState.WARNING, rule, "RFC 9449", observed)
        headers = HEADERS | {"Authorization": f"Bearer {grant.access_token}"}
        try:
            status, challenges = await self._send(headers)
        except CallError as error:
            return _broken_rule(rule, source, error)
        challenge = parse_challenge(challenges) or Challenge()
        observed = " ".join(filter(None, (f"HTTP {status}", challenge.error)))
        if status == 401 or (status == 403 and challenge.error == "insufficient_scope"):
            return LoginRule(RuleState.BROKEN, rule, source, observed, self._log_in_hint)
        return LoginRule(RuleState.FOLLOWED, rule, source, observed)

    async def _refresh(self, grant: OAuthGrant) -> OAuthGrant | None:
        """Renew the token. Return the new one, or None if this is not possible."""
        if not grant.refresh_token:
            self._report_no_refresh_token(grant, RuleState.BROKEN)
            return None
        rule, source = "The refresh token renews the login without a person.", "OAuth 2.1, 4.3"
        authorizer = Authorizer(self._plan.url, self._plan.options, self._plan.store)
        self._deviations.clear()
        try:
            renewed = await authorizer.renew(self._watched, self._challenge)
        except CallError as error:
            values = {"refresh_token": MASK, "expires": _lifetime(grant)}
            self._store(StepName.REFRESH, values, [_broken_rule(rule, source, error, self._log_in_hint)])
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
        self._store(StepName.REFRESH, values, [*rules, *self._deviation_rules()])
        return renewed

    def _report_unused_refresh(self, grant: OAuthGrant) -> None:
        """Report the step `refresh` if the token need not be renewed."""
        if self._plan.options.is_machine and not grant.refresh_token:
            values = {"refresh_token": "none; the client gets a new token with its credentials"}
            self._store(StepName.REFRESH, values, [], StepState.NOT_NEEDED)
            return
        if not grant.refresh_token:
            self._report_no_refresh_token(grant, RuleState.WARNING)
            return
        values = {
            "refresh_token": MASK,
            "expires": _lifetime(grant),
            "note": "not tried, because the token is valid; --renew tries it",
        }
        self._store(StepName.REFRESH, values, [], StepState.NOT_NEEDED)

    def _report_no_refresh_token(self, grant: OAuthGrant, state: RuleState) -> None:
        rule = "The token response has a refresh token, so that a person logs in once."
        hint = "Request the scope offline_access with --scope, if the provider has it, and log in again."
        observed = f"none; the login ends with the token, which {_lifetime(grant)}"
        rules = [LoginRule(state, rule, "OAuth 2.1, 1.3.2", observed, hint)]
        self._store(StepName.REFRESH, {"refresh_token": "none"}, rules)

    async def _log_in(self, server: AuthorizationServer, resource: ResourceMetadata) -> None:
        """Log in, and report the steps that this reaches."""
        plan = self._plan
        self._fetched.clear()
        self._deviations.clear()

        def show(address: str) -> None:
            self._login_address = address
            if plan.show is not None:
                plan.show(address)

        try:
            grant = await log_in(
                plan.url,
                plan.store,
                show,
                options=plan.options,
                timeout_s=plan.timeout_s,
                watch=self._record_fetch,
                report_deviation=self._add_deviation,
            )
        except CallError as error:
            self._report_failed_login(server, resource, error)
            return
        if any(step.subject == "the registration" for step, _ in self._fetched):
            earlier = self.steps[StepName.REGISTRATION]
            values = {**earlier.values, "kind": "dynamic, registered now", "client_id": grant.client.id}
            self._store(StepName.REGISTRATION, values, earlier.rules)
        rule = "`state` and `iss` of the redirect match the login."
        redirect_rule = LoginRule(RuleState.FOLLOWED, rule, "OAuth 2.1, 7.12; RFC 9207, 2.4", "they match")
        rules = [] if plan.options.is_machine else [redirect_rule]
        self._report_authorization(server, resource, StepState.OK, rules)
        acceptance = await self._acceptance_rule(grant)
        self.is_usable = acceptance.state is not RuleState.BROKEN
        rules = [*self._grant_rules(grant, server), acceptance, *self._deviation_rules()]
        self._store(StepName.TOKEN, _grant_values(grant), rules)
        self._report_unused_refresh(grant)

    def _report_failed_login(
        self, server: AuthorizationServer, resource: ResourceMetadata, error: CallError
    ) -> None:
        """Report the step at which a login failed, which the last request shows."""
        broken = _broken_rule("The login succeeds.", "OAuth 2.1, 4.1", error)
        last_subject = self._fetched[-1][0].subject if self._fetched else ""
        if last_subject == "the token request":
            self._report_authorization(server, resource, StepState.OK)
            self._store(StepName.TOKEN, {}, [broken])
        elif last_subject == "the registration" and not self._login_address:
            earlier = self.steps[StepName.REGISTRATION]
            self._store(StepName.REGISTRATION, earlier.values, [*earlier.rules, broken])
        else:
            self._report_authorization(server, resource, StepState.BROKEN, [broken])

    # Helpers

    def _record_fetch(self, step: Fetch, answer: FetchResult) -> None:
        self._fetched.append((step, answer))

    def _add_deviation(self, text: str) -> None:
        if text not in self._reported_deviations:
            self._reported_deviations.add(text)
            self._deviations.append(text)

    async def _send(self, headers: Mapping[str, str]) -> tuple[int, list[str]]:
        """Send a request. Return the status of the answer, and its `WWW-Authenticate` headers.

        Raises: CallError if there is no answer, or if it does not come from an MCP server.
        """
        timeout_s = self._plan.request_timeout_s
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._requests.answered("POST", headers, PING, follows_redirects=True) as answer,
            ):
                # An MCP server may answer an unknown method with the status 404 and JSON.
                is_missing = answer.status in (404, 405) and answer.content_type != "application/json"
                if 300 <= answer.status < 400 or answer.status >= 500 or is_missing:
                    raise CallError(f"HTTP {answer.status}")
                return answer.status, answer.headers.getall("WWW-Authenticate", [])
        except TimeoutError:
            raise CallError(f"no answer within {timeout_s:g} s") from None

    async def _run(self, flow: Flow[T]) -> T:
        """Run the requests of a flow, and return its result. Raises: CallError."""
        self._fetched.clear()
        self._deviations.clear()
        return await run_flow(flow, self._watched)

    def _request_values(self) -> dict[str, str]:
        """Return the value `requests` of a step: the requests that were sent, with their status."""
        requests = [f"{fetch.url} (HTTP {answer.status})" for fetch, answer in self._fetched]
        return {"requests": ", ".join(requests)} if requests else {}

    def _deviation_rules(self) -> list[LoginRule]:
        """Return a warning for each deviation in the current step."""
        rule = "The server follows the specifications."
        return [LoginRule(RuleState.WARNING, rule, "", masked_value(text)) for text in self._deviations]

    def _store(
        self,
        name: StepName,
        values: dict[str, str],
        rules: list[LoginRule],
        state: StepState | None = None,
    ) -> None:
        """Store the result of a step. Its state is that of its worst rule, unless `state` is given."""
        rule_states = {each.state for each in rules}
        if state is None:
            state = StepState.WARNING if RuleState.WARNING in rule_states else StepState.OK
            state = StepState.BROKEN if RuleState.BROKEN in rule_states else state
        self.steps[name] = LoginStep(name, state, _masked_values(values), rules)


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


def _request_rules(parameters: Mapping[str, str], resource: str) -> list[LoginRule]:
    """Return the rules about the authorization request that was sent."""
    method = parameters.get("code_challenge_method", "none")
    sent_resource = parameters.get("resource", "none")
    hint = "This is a bug of mcpdesk."
    return [
        _rule(method == "S256", "The request uses PKCE with S256.", "OAuth 2.1, 4.1.1", method, hint),
        _rule(
            sent_resource == resource, "The request names the resource.", "RFC 8707, 2", sent_resource, hint
        ),
    ]


def _broken_rule(rule: str, source: str, error: CallError, hint: str = "") -> LoginRule:
    """Return the rule as broken, with an error that shows this."""
    if isinstance(error, AuthorizationError):
        source, hint = error.clause or source, error.hint or hint
    observed = masked_value(error.message)
    return LoginRule(RuleState.BROKEN, rule, source, observed, hint or str(getattr(error, "hint", "")))


def _masked_values(values: dict[str, str]) -> dict[str, str]:
    """Return the values that are not empty, with secrets masked and shortened."""
    return {name: masked_value(text) for name, text in values.items() if text}


def _grant_values(grant: OAuthGrant) -> dict[str, str]:
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
    remaining_s = round(grant.expires - time.time())
    amount = f"{abs(remaining_s)} s" if abs(remaining_s) < 120 else f"{abs(remaining_s) // 60} min"
    return f"expires in {amount}" if remaining_s > 0 else f"expired {amount} ago"


def masked_value(text: str) -> str:
    """Return the beginning of a value. It is masked before it is cut, while its secrets are recognizable."""
    return mask_text(text)[:MAX_VALUE_LENGTH]
