"""Extraction of a server's explanation from the HTTP body or the JSON-RPC error of a rejection."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from mcpdesk.late_pattern import LatePattern
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.revisions import BY_NAME, Revision

MAX_READ_BYTES = 64 << 10
"""Maximum bytes of a body that are searched for an explanation."""
_TITLE_PATTERN = LatePattern(r"<title[^>]{0,200}>([^<]{1,400})", re.I)
_HEADING_PATTERN = LatePattern(r"<h1[^>]{0,200}>([^<]{1,400})", re.I)
_PAGE_PATTERN = LatePattern(
    r"\s*(?:<!--.{0,2000}?-->\s*)?<(?:!doctype\s+html|html|head|body|title)\b", re.I | re.S
)
_REASON_MEMBERS = ("message", "error_description", "detail", "title", "error", "errors", "reason", "msg")
"""JSON members that may have the reason of a rejection, most specific first."""
_MAX_DEPTH = 4
_DATE_PATTERN = LatePattern(r"\b20\d\d-\d\d-\d\d\b")
_SESSION_PATTERN = LatePattern(
    r"session.{0,60}(?:not found|not exist|unknown|invalid|expired|missing|terminated|closed|required|gone)"
    r"|(?:no|not|invalid|unknown|missing|expired|bad)\b.{0,30}session"
    r"|server not initialized",
    re.I | re.S,
)


def explanation(body: bytes, media_type: str = "") -> str:
    """Return the reason in a body: a JSON member, a description of a web page, or else the whole text."""
    text = body[:MAX_READ_BYTES].decode("utf-8", "replace").removeprefix("\ufeff")
    if "html" in media_type.lower() or _PAGE_PATTERN.regex.match(text):
        return page_description(text)
    if text.lstrip()[:1] in ("{", "["):
        try:
            return _member_explanation(msgspec.json.decode(body)) or text
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return text
    return text


def page_description(text: str) -> str:
    """Describe a web page by its title or first heading."""
    import html

    for pattern in (_TITLE_PATTERN, _HEADING_PATTERN):
        if (match := pattern.regex.search(text)) and (title := html.unescape(match[1]).strip()):
            return f"a page for people, {title!r}"
    return "a page for people"


def is_page(body: bytes, media_type: str = "") -> bool:
    """Return True if a body is HTML."""
    return (
        "html" in media_type.lower()
        or _PAGE_PATTERN.regex.match(body[:4096].decode("utf-8", "replace")) is not None
    )


def _member_explanation(value: Any, depth: int = 0) -> str:
    """Return the first text in a JSON value and in its `_REASON_MEMBERS`, or "" if it has none."""
    if isinstance(value, str):
        return value
    if depth == _MAX_DEPTH:
        return ""
    if isinstance(value, list):
        return _member_explanation(value[0], depth + 1) if value else ""
    if isinstance(value, dict):
        for name in _REASON_MEMBERS:
            if name in value and (nested_text := _member_explanation(value[name], depth + 1)):
                return nested_text
    return ""


def is_lost_session(status: int, reason: str) -> bool:
    """Return True if a rejection means that the server does not know the session.

    Such a rejection has status 404 or 410, or another status from 400 to 499 with a `reason` that mentions
    the session.
    """
    return status in (404, 410) or (400 <= status < 500 and _SESSION_PATTERN.regex.search(reason) is not None)


def is_challenge(headers: Mapping[str, str]) -> bool:
    """Return True if a bot protection in front of the server demands a browser."""
    return "challenge" in headers.get("cf-mitigated", "").lower()


def newest_revision_in(reason: str, tried: Revision) -> Revision | None:
    """Return the newest handshake revision that a rejection mentions, other than `tried`, or None."""
    dates = set(_DATE_PATTERN.regex.findall(reason)) - {tried.name}
    mentioned = [each for each in BY_NAME.values() if each.name in dates and not each.is_stateless]
    return max(mentioned, key=lambda each: each.name, default=None)


def repaired_error(message: JSONObject) -> tuple[JSONObject, str]:
    """Return a response with its malformed error fixed, and a description of the fault.

    The description is empty if the response has no such fault.
    """
    if "error" not in message:
        return message, ""
    error = message["error"]
    other_members = {name: value for name, value in message.items() if name != "error"}
    if error is None and "result" in other_members:
        return other_members, '"error" is null beside a result; it must be omitted if no error occurred'
    faults = []
    if "result" in other_members:
        result = other_members.pop("result")
        result_text = "null" if result is None else "a result"
        faults.append(f"{result_text} is present beside an error; it was read as the error")
    if not isinstance(error, dict):
        faults.append(
            f"the error is {_json_type_name(error)}, but must be an object with `code` and `message`"
        )
        message_text = error if isinstance(error, str) else msgspec.json.encode(error).decode()
        return other_members | {"error": {"code": 0, "message": message_text}}, "; ".join(faults)
    code, text = error.get("code"), error.get("message")
    fixed_error = dict(error)
    if not isinstance(code, int) or isinstance(code, bool):
        if code is None:
            faults.append("the error has no code")
        else:
            faults.append(f"the code of the error is {_json_type_name(code)}, but must be a whole number")
        number = _whole_number(code)
        fixed_error["code"] = 0 if number is None else number
        if number is None and code is not None and isinstance(text, str):
            text = f"{text} ({str(code)[:80]})"
    if text is None:
        faults.append("the error has no message")
        text = _member_explanation(error.get("data")) or "no message"
    elif not isinstance(text, str):
        faults.append(f"its message is {_json_type_name(text)}")
        text = _member_explanation(error.get("data")) or msgspec.json.encode(text).decode()
    if not faults:
        return message, ""
    fixed_error["message"] = text
    return other_members | {"error": fixed_error}, "; ".join(faults)


def _whole_number(code: Any) -> int | None:
    try:
        return int(code) if isinstance(code, str) or (isinstance(code, float) and code.is_integer()) else None
    except ValueError:
        return None


def _json_type_name(value: Any) -> str:
    kinds = {str: "text", list: "an array", dict: "an object", bool: "true or false", float: "a number"}
    return "null" if value is None else kinds.get(type(value), "a number")
