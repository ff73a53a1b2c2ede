"""Checks of `era-bench`: messages of a client to a server that serves one revision, or all revisions.

Source: MCP basic/versioning, basic/transports/streamable-http; 2025-11-25 basic/lifecycle, basic/transports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from mcpdesk.features.client_bench.bench_report import Check, CheckVerdict
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.protocol.revisions import BY_NAME, LATEST

ALL = "all"
"""Name of the server that serves all revisions."""
LIFECYCLE = "MCP 2025-11-25 basic/lifecycle"
VERSIONING = "MCP 2026-07-28 basic/versioning"
HTTP = "MCP 2026-07-28 basic/transports/streamable-http"
OLD_HTTP = "MCP 2025-11-25 basic/transports"


class ObservedMessage(Struct, frozen=True):
    """Message of the client, with the answer of the server."""

    method: str
    is_request: bool
    revision: str
    """Revision in the body, or ""."""
    code: int | None
    """Error code of the answer, or None."""
    agreed: str = ""
    """Revision in the answer to `initialize`, or "" for any other message or answer."""
    headers: dict[str, str] | None = None
    """Headers with lower-case names, or None over stdio."""
    has_session: bool = False
    """True if the server has announced a session before."""
    name: str = ""
    """Name or URI that `Mcp-Name` must repeat, or ""."""
    has_metadata: bool = False
    """True if `_meta` has the revision, as in the stateless era."""


def checks(served: str, messages: Sequence[ObservedMessage]) -> list[Check]:
    """Return the checks for a server that serves the revision `served`, or all revisions."""
    if not messages:
        rule = _served_rule(served)
        return [Check("speaks", CheckVerdict.NOT_SEEN, "no client connected", rule, VERSIONING)]
    return [
        _first_request_check(messages),
        _use_check(served, messages),
        *_era_change_checks(served, messages),
        *_header_checks(messages),
        *_initialized_checks(messages),
    ]


def is_decided(served: str, messages: Sequence[ObservedMessage]) -> bool:
    """Return True if the client uses the server, so that all checks have a result."""
    return _used_revision(messages) is not None


def _served_rule(served: str) -> str:
    name = "any revision" if served == ALL else f"only {served}"
    return f"The server serves {name}."


def _first_request_check(messages: Sequence[ObservedMessage]) -> Check:
    """Return the client's first request as a fact."""
    first = messages[0]
    revision = f" with {first.revision}" if first.revision else ""
    offered = list(dict.fromkeys(each.revision for each in messages if each.revision))
    later_note = f"; later {', '.join(offered[1:])}" if len(offered) > 1 else ""
    rule = "The first request shows the era of the client: it is `initialize`, or has `_meta`."
    return Check("offers", CheckVerdict.FACT, f"{first.method}{revision}{later_note}", rule, VERSIONING)


def _used_revision(messages: Sequence[ObservedMessage]) -> str | None:
    """Return the revision of the first successful request that does not open a connection, or None."""
    agreed = ""
    for each in messages:
        agreed = each.agreed or agreed
        is_setup = each.method in ("initialize", "server/discover", "ping")
        if each.is_request and not is_setup and each.code is None:
            return each.revision or agreed
    return None


def _use_check(served: str, messages: Sequence[ObservedMessage]) -> Check:
    """Return the check whether the client uses the server, or how the attempt ended."""
    revision = _used_revision(messages)
    if revision is not None:
        return Check("speaks", CheckVerdict.PASS, f"uses {revision}", _served_rule(served), VERSIONING)
    refused = next((each for each in reversed(messages) if each.code is not None), None)
    agreed = next((each.agreed for each in reversed(messages) if each.agreed), "")
    if agreed:
        observed = f"ended after the server answered with {agreed}"
    elif refused is not None:
        observed = f"ended after the error {refused.code}"
    else:
        observed = f"ended after {messages[-1].method}"
    rule = _served_rule(served)
    return Check("speaks", CheckVerdict.FACT, f"does not use it: {observed}", rule, VERSIONING)


def _era_change_checks(served: str, messages: Sequence[ObservedMessage]) -> Iterator[Check]:
    """Yield the checks of a client whose first request may be of another era than the server."""
    if served == ALL:
        return
    is_stateless_server = served == LATEST.name
    began_with_handshake = messages[0].method == "initialize"
    began_stateless = not began_with_handshake and bool(messages[0].revision)
    if not is_stateless_server and began_stateless:
        rule = "A client of both eras sends `initialize` if the server does not know the stateless era."
        initialize = next((each for each in messages if each.method == "initialize"), None)
        if initialize is None:
            yield Check("falls-back", CheckVerdict.FACT, "no: it sent no `initialize`", rule, VERSIONING)
        elif initialize.has_metadata:
            hint = "Send `initialize` without the `_meta` keys of the stateless era."
            yield Check("falls-back", CheckVerdict.FAIL, "with stateless `_meta`", rule, VERSIONING, hint)
        else:
            observed = f"yes: `initialize` with {initialize.revision}"
            yield Check("falls-back", CheckVerdict.PASS, observed, rule, VERSIONING)
    if is_stateless_server and began_with_handshake:
        rule = "After the error -32022, a client uses a revision of `data.supported`, or names the problem."
        changed_era = any(each.revision == LATEST.name and each.method != "initialize" for each in messages)
        observed = f"yes: to {LATEST.name}" if changed_era else "no: it ended"
        verdict = CheckVerdict.PASS if changed_era else CheckVerdict.FACT
        yield Check("changes-era", verdict, observed, rule, VERSIONING)
    if is_stateless_server and began_stateless:
        rule = "A client does not send `initialize` to a server that knows the stateless era."
        has_sent = any(each.method == "initialize" for each in messages)
        hint = "Do not fall back after a result, or after the errors -32020, -32021 and -32022."
        observed = "it sent `initialize`" if has_sent else "no `initialize`"
        verdict = CheckVerdict.FAIL if has_sent else CheckVerdict.PASS
        yield Check("stays-stateless", verdict, observed, rule, HTTP, hint if has_sent else "")


def _header_checks(messages: Sequence[ObservedMessage]) -> Iterator[Check]:
    """Yield the checks of the HTTP headers."""
    if messages[0].headers is None:
        return
    yield _accept_check([each for each in messages if each.headers is not None])
    stateless_requests = [each for each in messages if each.is_request and _is_stateless(each)]
    if stateless_requests:
        yield _routing_check(stateless_requests)
    session_messages = _after_handshake(messages)
    versions = [
        (agreed, (each.headers or {}).get("mcp-protocol-version"))
        for each, agreed in session_messages
        if agreed in ("2025-06-18", "2025-11-25")
    ]
    if versions:
        wrong_count = sum(agreed != sent for agreed, sent in versions)
        rule = "After the handshake, every request has `MCP-Protocol-Version` with the agreed revision."
        yield _counted_check("version-header", wrong_count, len(versions), rule, OLD_HTTP)
    with_session = [each for each, _ in session_messages if each.has_session]
    if with_session:
        missing_count = sum("mcp-session-id" not in (each.headers or {}) for each in with_session)
        rule = "A client sends the session id of the server with every later request."
        yield _counted_check("session-header", missing_count, len(with_session), rule, OLD_HTTP)


def _after_handshake(messages: Sequence[ObservedMessage]) -> list[tuple[ObservedMessage, str]]:
    """Return the messages after a handshake, each with the revision that was agreed last.

    A client may do several handshakes. Messages of the stateless era are left out.
    """
    with_agreed = list[tuple[ObservedMessage, str]]()
    agreed = ""
    for message in messages:
        if message.method == "initialize":
            agreed = message.agreed or agreed
        elif agreed and not _is_stateless(message):
            with_agreed.append((message, agreed))
    return with_agreed


def _is_stateless(message: ObservedMessage) -> bool:
    revision = BY_NAME.get(message.revision)
    return message.method != "initialize" and revision is not None and revision.is_stateless


def _accept_check(messages: Sequence[ObservedMessage]) -> Check:
    media_types = ("application/json", "text/event-stream")
    accept_headers = [(each.headers or {}).get("accept", "") for each in messages]
    wrong_count = sum(not all(media_type in text for media_type in media_types) for text in accept_headers)
    rule = "Every POST request accepts application/json and text/event-stream."
    return _counted_check("accept-header", wrong_count, len(messages), rule, HTTP)


def _routing_check(messages: Sequence[ObservedMessage]) -> Check:
    """Return the check of the headers that stateless requests must have."""
    wrong_headers = list[str]()
    for each in messages:
        headers = each.headers or {}
        expected = {"mcp-protocol-version": each.revision, "mcp-method": each.method}
        names = {"mcp-protocol-version": "MCP-Protocol-Version", "mcp-method": "Mcp-Method"}
        wrong_headers += [names[name] for name, value in expected.items() if headers.get(name) != value]
        if each.name and each.name.isascii() and headers.get("mcp-name") != each.name:
            wrong_headers.append("Mcp-Name")
    rule = "Every request repeats revision, method and name in MCP-Protocol-Version, Mcp-Method and Mcp-Name."
    if not wrong_headers:
        observed = f"right in {len(messages)} requests"
        return Check("routing-headers", CheckVerdict.PASS, observed, rule, HTTP)
    observed = f"missing or different: {', '.join(dict.fromkeys(wrong_headers))}"
    hint = f"A server refuses such a request with the error {int(ErrorCode.HEADER_MISMATCH)}."
    return Check("routing-headers", CheckVerdict.FAIL, observed, rule, HTTP, hint)


def _counted_check(name: str, wrong_count: int, count: int, rule: str, source: str) -> Check:
    """Return the check of a header that is missing or wrong in `wrong_count` of `count` requests."""
    if not wrong_count:
        return Check(name, CheckVerdict.PASS, f"right in {count} requests", rule, source)
    observed = f"missing or wrong in {wrong_count} of {count} requests"
    return Check(name, CheckVerdict.FAIL, observed, rule, source, "Add the header to the request.")


def _initialized_checks(messages: Sequence[ObservedMessage]) -> Iterator[Check]:
    """Yield the check of the notification after a handshake, if there was a handshake."""
    methods = [each.method for each, _ in _after_handshake(messages) if each.method != "ping"]
    if not methods:
        return
    rule = (
        "After `initialize`, the client sends `notifications/initialized` before other requests than `ping`."
    )
    if methods[0] == "notifications/initialized":
        yield Check("initialized", CheckVerdict.PASS, "sent", rule, LIFECYCLE)
    else:
        was_sent = "notifications/initialized" in methods
        observed = f"{methods[0]} came first" if was_sent else "not sent"
        verdict = CheckVerdict.WARNING if was_sent else CheckVerdict.FAIL
        yield Check("initialized", verdict, observed, rule, LIFECYCLE)
