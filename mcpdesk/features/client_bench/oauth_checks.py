"""Checks of `oauth-bench` on the observations of one run.

Source: MCP basic/authorization; OAuth 2.1; RFC 6750, 7591, 7636, 8707, 9207, 9728.
"""

from __future__ import annotations

from collections.abc import Iterator

from mcpdesk.features.client_bench.bench_report import Check, CheckVerdict, short_text
from mcpdesk.features.client_bench.oauth_server import METADATA, SCOPE, Observations, Probe, Renewal

AUTHORIZATION = "MCP 2026-07-28 basic/authorization"
REGISTRATION = "MCP 2026-07-28 basic/authorization/client-registration"
OLDER_REVISION_NOTE = "; the revision of the client does not require the check"
"""Note for clients that do not use the revision 2026-07-28."""
PROBE_CHECKS = {
    Probe.WRONG_ISS: (
        "iss-mismatch",
        "A redirect whose `iss` is not the issuer of the login must be rejected.",
        f"RFC 9207, 2.4; {AUTHORIZATION}",
        "Compare `iss` with the issuer in the validated metadata, before the code is sent anywhere.",
    ),
    Probe.NO_ISS: (
        "iss-missing",
        "If the metadata announces `iss`, a redirect without it must be rejected.",
        f"RFC 9207, 2.4; {AUTHORIZATION}",
        "Read authorization_response_iss_parameter_supported in the metadata.",
    ),
    Probe.WRONG_STATE: (
        "state-mismatch",
        "A redirect with another `state` than that of the login must be rejected.",
        "OAuth 2.1, 7.12",
        "Create a random `state` for each login, and compare it before the code is used.",
    ),
}
"""Name, rule, source and hint of the check of each probe."""


def checks(probe: Probe, observations: Observations, url: str, *, is_over: bool) -> list[Check]:
    """Return the checks of a run. `url` is the URL of the MCP endpoint.

    `is_over` is True after the run, when the absence of a request is also an observation.
    """
    if probe is not Probe.LOGIN:
        return [_refusal(probe, observations, is_over=is_over)]
    return [
        _challenge(observations),
        _registration(observations),
        *_application_type(observations),
        _scope(observations),
        _pkce(observations),
        _state(observations),
        _resource(observations, url),
        _bearer(observations),
        _expiry(observations, is_over=is_over),
        _rotation(observations),
        _revoked(observations, is_over=is_over),
        _kept_login(observations, is_over=is_over),
    ]


def is_decided(probe: Probe, observations: Observations, url: str) -> bool:
    """Return True if every check has a verdict. Later requests can only make a verdict worse."""
    return all(
        each.verdict is not CheckVerdict.NOT_SEEN for each in checks(probe, observations, url, is_over=False)
    )


def _refusal(probe: Probe, observations: Observations, *, is_over: bool) -> Check:
    """Return the check whether the client refuses the redirect of a probe."""
    name, rule, source, hint = PROBE_CHECKS[probe]
    if observations.bad_codes_used:
        if probe is Probe.WRONG_STATE or observations.is_stateless:
            return Check(name, CheckVerdict.FAIL, "the client used the code", rule, source, hint)
        observed = f"the client used the code{OLDER_REVISION_NOTE}"
        return Check(name, CheckVerdict.WARNING, observed, rule, source, hint)
    if observations.is_undelivered:
        return Check(name, CheckVerdict.NOT_SEEN, "the client did not listen for the redirect", rule, source)
    if observations.bad_redirects and is_over:
        return Check(name, CheckVerdict.PASS, "the client did not use the code", rule, source)
    return Check(name, CheckVerdict.NOT_SEEN, "the client did not log in", rule, source)


def _challenge(observations: Observations) -> Check:
    rule = "The client reads the metadata at the URL in `WWW-Authenticate`."
    source = f"RFC 9728, 5.1; {AUTHORIZATION}"
    if METADATA in observations.metadata_paths:
        return Check("challenge", CheckVerdict.PASS, "the client read the metadata at this URL", rule, source)
    if observations.registrations or observations.authorizations:
        paths = ", ".join(dict.fromkeys(observations.metadata_paths))
        observed = f"the client ignored the URL, and read {paths or 'no metadata of the resource'}"
        hint = "Use `resource_metadata` of the challenge; the well-known paths are only a fallback."
        return Check("challenge", CheckVerdict.FAIL, observed, rule, source, hint)
    return Check("challenge", CheckVerdict.NOT_SEEN, "the client did not begin a login", rule, source)


def _registration(observations: Observations) -> Check:
    rule = "Clients use a registered id, a client ID metadata document, or dynamic registration."
    if not observations.authorizations:
        return Check("registration", CheckVerdict.NOT_SEEN, "the client did not log in", rule, REGISTRATION)
    if observations.registrations:
        observed = "dynamic registration"
        if len(observations.registrations) > 1:
            observed = f"dynamic registration, {len(observations.registrations)} times"
    elif str(observations.authorizations[0].get("client_id", "")).startswith("https://"):
        observed = "client ID metadata document (the bench does not read it)"
    else:
        observed = "an id that the client had before"
    return Check("registration", CheckVerdict.FACT, observed, rule, REGISTRATION)


def _application_type(observations: Observations) -> Iterator[Check]:
    """Yield the check of a dynamic registration."""
    if not observations.registrations:
        return
    rule = "A dynamic registration names its `application_type`."
    application_type = observations.registrations[0].get("application_type")
    if application_type in ("native", "web"):
        yield Check("application-type", CheckVerdict.PASS, f"{application_type}", rule, REGISTRATION)
        return
    verdict = CheckVerdict.FAIL if observations.is_stateless else CheckVerdict.WARNING
    observed = "missing" if application_type is None else repr(short_text(application_type) or "not a text")
    if not observations.is_stateless:
        observed += OLDER_REVISION_NOTE
    hint = 'Register with "application_type": "native" if the redirect URI is on the user\'s machine.'
    yield Check("application-type", verdict, observed, rule, REGISTRATION, hint)


def _scope(observations: Observations) -> Check:
    rule = "The client requests the scopes of the challenge."
    if not observations.authorizations:
        return Check("scope", CheckVerdict.NOT_SEEN, "the client did not log in", rule, AUTHORIZATION)
    scope = str(observations.authorizations[0].get("scope", ""))
    if scope.split() == [SCOPE]:
        return Check("scope", CheckVerdict.PASS, scope, rule, AUTHORIZATION)
    observed = f"requested {scope[:200]!r} instead of {SCOPE!r}" if scope else "requested no scope"
    hint = "`scope` of the challenge has priority over scopes_supported in the metadata."
    return Check("scope", CheckVerdict.WARNING, observed, rule, AUTHORIZATION, hint)


def _pkce(observations: Observations) -> Check:
    rule = "The client uses PKCE with S256."
    source = f"OAuth 2.1, 4.1.1; {AUTHORIZATION}"
    if not observations.verified:
        return Check("pkce", CheckVerdict.NOT_SEEN, "the client did not log in", rule, source)
    if all(observations.verified):
        return Check("pkce", CheckVerdict.PASS, "S256, and the verifier matches", rule, source)
    request = observations.authorizations[-1]
    if "code_challenge" not in request:
        observed = "no code_challenge"
    elif request.get("code_challenge_method") != "S256":
        observed = f"method {str(request.get('code_challenge_method', 'plain'))[:40]}"
    else:
        observed = "the code_verifier does not match the code_challenge"
    hint = "Send code_challenge and code_challenge_method=S256, and later the code_verifier."
    return Check("pkce", CheckVerdict.FAIL, observed, rule, source, hint)


def _state(observations: Observations) -> Check:
    rule, source = "The client sends a random `state`.", f"OAuth 2.1, 7.12; {AUTHORIZATION}"
    if not observations.authorizations:
        return Check("state", CheckVerdict.NOT_SEEN, "the client did not log in", rule, source)
    values = [str(each.get("state", "")) for each in observations.authorizations]
    if all(values) and len(set(values)) == len(values):
        return Check("state", CheckVerdict.PASS, f"{len(values[0])} characters", rule, source)
    observed = "missing" if not all(values) else "the same value for two logins"
    hint = "Create a new random value for each login, and check it in the redirect."
    return Check("state", CheckVerdict.WARNING, observed, rule, source, hint)


def _resource(observations: Observations, url: str) -> Check:
    rule = "The client sends `resource` with the URL of the server in authorization and token requests."
    source = f"RFC 8707, 2; {AUTHORIZATION}"
    requests_by_kind = {
        "authorization": observations.authorizations,
        "token": observations.codes,
        "refresh": observations.renewal_requests,
    }
    wrong_kinds = [
        kind for kind, requests in requests_by_kind.items() if requests and requests[0].get("resource") != url
    ]
    if wrong_kinds:
        observed = f"missing or wrong in the {', '.join(wrong_kinds)} request"
        hint = f"Send resource={url} in every authorization and token request, also to refresh."
        return Check("resource", CheckVerdict.FAIL, observed, rule, source, hint)
    missing_kinds = [kind for kind, requests in requests_by_kind.items() if not requests]
    right_kinds = ", ".join(kind for kind in requests_by_kind if kind not in missing_kinds)
    if missing_kinds:
        observed = f"sent in: {right_kinds or 'none'}; no {', '.join(missing_kinds)} request was seen"
        return Check("resource", CheckVerdict.NOT_SEEN, observed, rule, source)
    return Check("resource", CheckVerdict.PASS, f"sent in: {right_kinds}", rule, source)


def _bearer(observations: Observations) -> Check:
    rule = "The client sends the token in the `Authorization` header of every request, never in the URL."
    hint = "Add `Authorization: Bearer TOKEN` to every HTTP request, also to GET and DELETE."
    if observations.tokens_in_url:
        return Check("bearer", CheckVerdict.FAIL, "a token was in a URL", rule, AUTHORIZATION, hint)
    if observations.missing_tokens:
        observed = (
            f"{observations.missing_tokens} of {observations.requests} requests after the login had no token"
        )
        return Check("bearer", CheckVerdict.WARNING, observed, rule, AUTHORIZATION, hint)
    if not observations.logins:
        return Check("bearer", CheckVerdict.NOT_SEEN, "the client did not log in", rule, AUTHORIZATION)
    return Check("bearer", CheckVerdict.PASS, "in the header of every request", rule, AUTHORIZATION)


def _expiry(observations: Observations, *, is_over: bool) -> Check:
    rule = "The client renews an expired token with its refresh token, without a person."
    source = f"OAuth 2.1, 4.3; {AUTHORIZATION}"
    descriptions = {
        Renewal.EARLY: "before the token expired",
        Renewal.EXPIRED: "after the token expired, before a request was rejected",
        Renewal.REJECTED: "after a request was rejected with HTTP 401",
    }
    renewal_times = [descriptions[each] for each in observations.renewals if each is not Renewal.REVOKED]
    if renewal_times:
        observed = f"renewed {'; '.join(dict.fromkeys(renewal_times))}"
        return Check("expiry", CheckVerdict.PASS, observed, rule, source)
    hint = "Store expires_in, and send grant_type=refresh_token before the token expires, or after HTTP 401."
    if observations.later_logins and not observations.is_login_revoked:
        return Check("expiry", CheckVerdict.FAIL, "the client began a new login instead", rule, source, hint)
    if is_over and observations.expired_uses and not observations.reused:
        observed = f"{observations.expired_uses} requests had the expired token, which was never renewed"
        return Check("expiry", CheckVerdict.FAIL, observed, rule, source, hint)
    return Check("expiry", CheckVerdict.NOT_SEEN, "no request after the token expired", rule, source)


def _rotation(observations: Observations) -> Check:
    rule = "A new refresh token replaces the old one, which the client never sends again."
    source = f"OAuth 2.1, 4.3.1; {AUTHORIZATION}"
    if observations.reused:
        observed = f"the client sent a used refresh token {observations.reused} times"
        hint = "Store the refresh token of every answer, and let only one request renew a token at a time."
        return Check("rotation", CheckVerdict.FAIL, observed, rule, source, hint)
    if len(observations.renewals) > 1:
        observed = f"{len(observations.renewals)} renewals, each with the newest refresh token"
        return Check("rotation", CheckVerdict.PASS, observed, rule, source)
    return Check("rotation", CheckVerdict.NOT_SEEN, "fewer than two renewals", rule, source)


def _revoked(observations: Observations, *, is_over: bool) -> Check:
    rule = "A token that is rejected before it expires is renewed with the refresh token, without a person."
    source = f"RFC 6750, 3.1; {AUTHORIZATION}"
    hint = "After HTTP 401, try the refresh token before a new login."
    if Renewal.REVOKED in observations.renewals:
        return Check("rejected-token", CheckVerdict.PASS, "renewed after HTTP 401", rule, source)
    if observations.is_login_revoked:
        return Check(
            "rejected-token", CheckVerdict.WARNING, "the client began a new login", rule, source, hint
        )
    if is_over and observations.revoked_uses:
        observed = "the client gave up after HTTP 401"
        return Check("rejected-token", CheckVerdict.WARNING, observed, rule, source, hint)
    return Check("rejected-token", CheckVerdict.NOT_SEEN, "no request with the rejected token", rule, source)


def _kept_login(observations: Observations, *, is_over: bool) -> Check:
    rule = "The client keeps its login: a person logs in once, as long as the refresh token is valid."
    source = f"OAuth 2.1, 4.3; {AUTHORIZATION}"
    if observations.later_logins or observations.reused:
        observed = "the client lost its tokens"
        if observations.later_logins:
            observed = f"a person was needed {observations.later_logins + 1} times"
        hint = "See the checks expiry, rotation and rejected-token."
        return Check("login-kept", CheckVerdict.FAIL, observed, rule, source, hint)
    if is_over and (observations.revoked_uses or observations.expired_uses) and not observations.renewals:
        return Check("login-kept", CheckVerdict.FAIL, "the client stayed without a valid token", rule, source)
    if observations.logins and len(observations.renewals) > 1 and (observations.revoked_uses or is_over):
        observed = f"one login, {len(observations.renewals)} renewals"
        return Check("login-kept", CheckVerdict.PASS, observed, rule, source)
    return Check("login-kept", CheckVerdict.NOT_SEEN, "the run was too short", rule, source)
