"""Principals of callers: a table of credentials, and the outcome on every route, over real sockets."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from multidict import CIMultiDict

from mcpdesk.auth.principal import INVALID_TOKEN, MISSING_TOKEN
from mcpdesk.transports.base import Rules
from tests.support.callers import PASSED, WITHOUT_BODY, checking, everywhere, good_headers, guarding
from tests.support.tokens import AUDIENCE, base64, claims, pem, private_key, signed, token, unsigned

PAGE = "http://localhost:8080"
FOREIGN_PAGE = "https://evil.example"


def good(algorithm: str = "RS256", **changes: Any) -> str:
    return token(algorithm, header={"kid": f"{algorithm}-first"}, **changes)


def headed(**header: Any) -> str:
    """A good token but for its header."""
    return token("RS256", header={"kid": "RS256-first", **header})


def forged(header: dict[str, Any], key: bytes = b"guessed" * 9) -> str:
    """A token with an HS256 signature, whatever its header says."""
    return signed("HS256", key, header, claims())


class Case(NamedTuple):
    """Credentials of a request, and the expected outcome: a subject, or the reason of the refusal."""

    name: str
    expected: str
    headers: list[tuple[str, str]] = []
    body: dict[str, Any] = {}
    without_body: str = ""
    """Expected outcome on routes without a body; empty: the same."""


def bearer(name: str, expected: str, text: str) -> Case:
    return Case(name, expected, [("Authorization", f"Bearer {text}")])


def body(name: str, expected: str, members: dict[str, Any], *headers: tuple[str, str]) -> Case:
    return Case(name, expected, list(headers), members, "missing" if not headers else expected)


def cookie(name: str, expected: str, text: str, origin: str | None = PAGE) -> Case:
    sent = [("Cookie", text)]
    return Case(name, expected, sent if origin is None else [*sent, ("Origin", origin)])


CASES: list[Callable[[], Case]] = [
    # Good ones
    lambda: bearer("RSA", "ada", good()),
    lambda: bearer("elliptic curve", "ada", good("ES256")),
    lambda: bearer("Edwards curve", "ada", good("EdDSA")),
    lambda: Case("scheme in capitals", "ada", [("Authorization", f"BEARER {good()}")]),
    lambda: Case("header in small letters", "ada", [("authorization", f"bearer   {good()}")]),
    lambda: bearer("no key id", "ada", headed(kid=None)),
    lambda: bearer("several audiences", "ada", good(aud=["other", AUDIENCE])),
    lambda: bearer("just expired, within the leeway", "ada", good(exp=int(time.time()) - 2)),
    lambda: bearer("about to begin, within the leeway", "ada", good(nbf=int(time.time()) + 5)),
    lambda: bearer("subject is a number", "42", good(sub=42)),
    lambda: bearer("address for a subject", "0xAB", good(sub=None, address="0xAB")),
    # Absent and malformed
    lambda: Case("nothing", "missing"),
    lambda: Case("another scheme", "missing", [("Authorization", "Basic YWRhOmxvdmVsYWNl")]),
    lambda: Case("a scheme that begins alike", "missing", [("Authorization", f"BearerX {good()}")]),
    lambda: Case("the scheme alone", "invalid", [("Authorization", "Bearer")]),
    lambda: Case("the scheme and spaces", "invalid", [("Authorization", "Bearer    ")]),
    lambda: bearer("a word", "invalid", "word"),
    lambda: bearer("two parts", "invalid", good().rpartition(".")[0]),
    lambda: bearer("four parts", "invalid", good() + ".AAAA"),
    lambda: bearer("empty parts", "invalid", ".."),
    lambda: bearer("signs that no token has", "invalid", good() + "é"),
    lambda: bearer("a space inside", "invalid", good().replace(".", " .", 1)),
    lambda: bearer("two tokens in one", "invalid", f"{good()} {good()}"),
    lambda: bearer("quoted", "invalid", f'"{good()}"'),
    lambda: bearer("cut off", "invalid", good()[:-5]),
    lambda: bearer(
        "header that is a list", "invalid", base64(b"[]").decode() + "." + good().partition(".")[2]
    ),
    lambda: bearer(
        "claims that are a list", "invalid", signed("RS256", private_key("RS256"), {"alg": "RS256"}, [])
    ),
    lambda: bearer("a nested bomb", "invalid", base64(b'{"a":' * 900).decode() + ".e30.AAAA"),
    # Time
    lambda: bearer("expired", "invalid", good(exp=int(time.time()) - 60)),
    lambda: bearer("expired long ago", "invalid", good(exp=1)),
    lambda: bearer("never ends", "invalid", good(exp=None)),
    lambda: bearer("ends in words", "invalid", good(exp="2100-01-01")),
    lambda: bearer("ends at yes", "invalid", good(exp=True)),
    lambda: bearer("not yet valid", "invalid", good(nbf=int(time.time()) + 60)),
    lambda: bearer("issued in the future", "invalid", good(iat=int(time.time()) + 60)),
    # Issuer and audience
    lambda: bearer("another issuer", "invalid", good(iss="https://evil.example")),
    lambda: bearer("no issuer", "invalid", good(iss=None)),
    lambda: bearer("issuer that begins alike", "invalid", good(iss="https://issuer.example.evil.example")),
    lambda: bearer("another audience", "invalid", good(aud="https://other.example/mcp")),
    lambda: bearer("no audience", "invalid", good(aud=None)),
    lambda: bearer("audience that begins alike", "invalid", good(aud=AUDIENCE + "/more")),
    lambda: bearer("audience as an object", "invalid", good(aud={AUDIENCE: True})),
    # Signature, algorithm, key
    lambda: bearer("changed claims", "invalid", _changed(good())),
    lambda: bearer(
        "another's signature", "invalid", good().rpartition(".")[0] + "." + good(sub="eve").rpartition(".")[2]
    ),
    lambda: bearer("none", "invalid", unsigned()),
    lambda: bearer("none with a signature", "invalid", unsigned() + good().rpartition(".")[2]),
    lambda: bearer("None in another case", "invalid", forged({"alg": "nOnE", "kid": "RS256-first"})),
    lambda: bearer(
        "HMAC with the public key", "invalid", forged({"alg": "HS256", "kid": "RS256-first"}, pem("RS256"))
    ),
    lambda: bearer(
        "HMAC that calls itself RSA", "invalid", forged({"alg": "RS256", "kid": "RS256-first"}, pem("RS256"))
    ),
    lambda: bearer("HMAC with a guessed secret", "invalid", token("HS256", header={"kid": None})),
    lambda: bearer(
        "an algorithm that is not allowed", "invalid", token("PS256", header={"kid": "RS256-first"})
    ),
    lambda: bearer("an unknown algorithm", "invalid", forged({"alg": "XS1", "kid": "RS256-first"})),
    lambda: bearer(
        "one key's id, another key's kind", "invalid", token("ES256", header={"kid": "RS256-first"})
    ),
    lambda: bearer("an unknown key", "invalid", token("RS256", "stranger", header={"kid": "RS256-stranger"})),
    lambda: bearer(
        "a stranger's key under a known id",
        "invalid",
        token("RS256", "stranger", header={"kid": "RS256-first"}),
    ),
    lambda: bearer(
        "a key of its own in the header",
        "invalid",
        token("RS256", "stranger", header={"jwk": {"kty": "RSA"}, "kid": None}),
    ),
    lambda: bearer("a path for a key id", "invalid", headed(kid="../../etc/passwd")),
    lambda: bearer("a number for a key id", "invalid", headed(kid=7)),
    lambda: bearer("an address for keys in the header", "ada", headed(jku="https://evil.example/keys")),
    lambda: bearer("a critical extension", "invalid", headed(crit=["exp"])),
    lambda: bearer("a detached payload", "invalid", headed(b64=False)),
    # Huge
    lambda: bearer("huge", "too large", good(more="x" * 9000)),
    lambda: body("huge in the body", "invalid", {"jwt": good(more="x" * 40_000)}),
    # Other places, and several at once
    lambda: body("in the body", "ada", {"jwt": good()}),
    lambda: body("in the data of the body", "ada", {"data": {"jwt": good()}}),
    lambda: body("body before its data", "ada", {"jwt": good(), "data": {"jwt": "wrong"}}),
    lambda: body(
        "wrong in the body, right in its data", "invalid", {"jwt": "wrong", "data": {"jwt": good()}}
    ),
    lambda: body("nothing in the body, right in its data", "ada", {"jwt": None, "data": {"jwt": good()}}),
    lambda: body("a number in the body", "invalid", {"jwt": 5}),
    lambda: body("expired in the body", "invalid", {"jwt": good(exp=1)}),
    lambda: body("data that is no object", "missing", {"data": "jwt"}),
    lambda: body("header before body", "ada", {"jwt": "wrong"}, ("Authorization", f"Bearer {good()}")),
    lambda: body(
        "wrong header before a good body", "invalid", {"jwt": good()}, ("Authorization", "Bearer wrong")
    ),
    lambda: Case("header twice", "broken", [("Authorization", f"Bearer {good()}")] * 2),
    lambda: Case(
        "two schemes at once",
        "broken",
        [("Authorization", "Basic YTpi"), ("Authorization", f"Bearer {good()}")],
    ),
    # Cookies
    lambda: cookie("cookie of a page", "ada", f"access_token={good()}"),
    lambda: cookie("the other cookie", "ada", f"jwt={good()}"),
    lambda: cookie("both cookies", "ada", f"jwt=wrong; access_token={good()}"),
    lambda: cookie("wrong first cookie", "invalid", f"jwt={good()}; access_token=wrong"),
    lambda: cookie("expired cookie", "invalid", f"jwt={good(exp=1)}"),
    lambda: cookie("cookie of another name", "missing", f"session={good()}"),
    lambda: cookie("cookie without a page", "missing", f"access_token={good()}", None),
    lambda: cookie("cookie and a foreign page", "foreign", f"access_token={good()}", FOREIGN_PAGE),
    lambda: cookie("cookie and no page at all", "foreign", f"access_token={good()}", "null"),
    lambda: Case(
        "good header and a foreign page", "foreign", [*good_headers().items(), ("Origin", FOREIGN_PAGE)]
    ),
    lambda: Case(
        "header before cookie", "ada", [*good_headers().items(), ("Cookie", "jwt=wrong"), ("Origin", PAGE)]
    ),
    lambda: Case(
        "wrong header before a good cookie",
        "invalid",
        [("Authorization", "Bearer wrong"), ("Cookie", f"jwt={good()}"), ("Origin", PAGE)],
    ),
    # What a client says of itself
    lambda: body("claims of its own", "missing", {"__jwt": {"sub": "ada"}}),
]


def _changed(text: str) -> str:
    head, _, tail = text.split(".")
    return f"{head}.{base64(b'{}').decode()}.{tail}"


def named(number: int) -> str:
    return f"{number}-{CASES[number]().name}"


def words(reason: str) -> str:
    return f'{{"error":"{reason}"}}'


def problem(route: str, expected: str, outcome: Any) -> str:
    """Difference of an answer from the expected one; empty if both are equal."""
    said = f"{outcome.status} {outcome.challenge} {outcome.text[:200]}"
    is_socket = "WebSocket" in route
    match expected:
        case "missing":
            is_right = outcome.status == 401 and outcome.challenge == 'Bearer realm="mcpdesk"'
            is_right = is_right and (is_socket or outcome.text == words(MISSING_TOKEN))
        case "invalid":
            is_right = outcome.status == 401 and outcome.challenge == 'Bearer error="invalid_token"'
            is_right = is_right and (is_socket or outcome.text == words(INVALID_TOKEN))
        case "broken":
            is_right = outcome.status == 400 and 'error="invalid_request"' in outcome.challenge
        case "foreign":
            is_right = outcome.status == 403 and (is_socket or "Origin" in outcome.error)
        case "too large":
            is_right = outcome.status == 431
        case subject:
            # The stream was opened by ada: no other caller may use it.
            status = 404 if route == "SSE message" and subject != "ada" else PASSED.get(route, 200)
            is_said = f'"{subject}"' in outcome.text
            is_right = outcome.status == status and (is_said or not (is_socket or "POST" in route))
    return "" if is_right else said


@pytest.mark.sampled(12)
@pytest.mark.requirement("11.1")
@pytest.mark.requirement("11.2")
@pytest.mark.requirement("12.4")
@pytest.mark.parametrize("number", range(len(CASES)), ids=named)
async def test_every_route_knows_its_caller(number: int) -> None:
    case = CASES[number]()
    async with guarding(checking(), Rules(allowed_origins=(PAGE,))) as served:
        outcomes = await everywhere(served, (CIMultiDict(case.headers), case.body))
        wrong = {}
        for route, outcome in outcomes.items():
            has_body = route not in WITHOUT_BODY
            expected = case.expected if has_body or not case.without_body else case.without_body
            if told := problem(route, expected, outcome):
                wrong[route] = told
        assert wrong == {}
        sent = [text for _, text in case.headers if len(text) > 60] + [str(case.body)]
        kept = b"".join(data for _, data in served.recorder.seen) + repr(served.recorder.notes).encode()
        assert not any(text.rpartition(" ")[2].encode() in kept for text in sent if len(text) > 60)
