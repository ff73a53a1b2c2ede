"""One-line summaries of exchanges: the arguments of the request, and the result."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.methods import METHODS
from mcpdesk.recorder.index.exchange import Exchange, ExchangeKind, Status
from mcpdesk.recorder.index.traffic_index import Index, last_round
from mcpdesk.recorder.masking import mask_message, mask_text
from mcpdesk.recorder.readable_message import changed_request, unmasked

MAX_DECODED_BYTES = 16 << 10
"""Maximum size in bytes of a frame that is decoded. Of a larger frame only the beginning is used."""
MAX_LIST_BYTES = 512 << 10
"""Maximum size in bytes of a response to a list request that is decoded, to count its items."""
MAX_TEXT_LENGTH = 400
"""Maximum length in characters of the arguments and of the result."""
MIN_PROGRESS = 0.001
"""Progress without a total and below this value only shows that the call still runs."""
REPLAYED_KEY = "mcpdesk/replayed"
"""Key in the `_meta` of a call that the desk repeated to compare results."""
CHANGED_SIGN = "✎"
"""Sign that is shown before arguments if a person changed them at the desk."""
_TEXT_BEGINNINGS = ('"text":"', '"arguments":', '"result":', '"params":')
"""Texts with which the interesting part of a message begins. The innermost part comes first."""
_MAX_KEYS = 4
"""Maximum number of member names in the summary of a list, and number of objects that are read for them."""
_MAX_READ_LENGTH = 4 * MAX_TEXT_LENGTH
"""Maximum number of characters in which escapes are replaced."""
_MAX_NESTING = 3
"""Maximum number of levels of JSON within JSON whose escapes are replaced."""
_ESCAPE = re.compile(r"""\\(["\\nrt])""")
_ESCAPED_CHARACTERS = {'"': '"', "\\": "\\"}
"""Characters that are written instead of their escapes. Other escapes become blanks."""
_LIST_MEMBERS = ("tools", "resources", "resourceTemplates", "prompts")


class Summary(NamedTuple):
    """Summary of an exchange. Secrets are masked, unless the index shows them."""

    arguments: str = ""
    """Arguments of the request, or the content of a notification."""
    result: str = ""
    """Result or error of the request, or its latest notification while it runs."""
    has_failed: bool = False
    values: str = ""
    """Arguments of a call without their names, for narrow columns, or "" if it has none."""


def summary(index: Index, exchange: Exchange) -> Summary:
    """Return the summary of an exchange. Empty if its frames are missing or not JSON-RPC."""
    if exchange.kind not in (ExchangeKind.REQUEST, ExchangeKind.NOTIFICATION):
        return Summary()
    changed_message = changed_request(index, exchange)
    is_changed = changed_message is not None
    request = (
        _summary_parts(changed_message) if is_changed else _decoded_message(index, exchange, exchange.request)
    )
    if exchange.kind is ExchangeKind.NOTIFICATION:
        return Summary(_notification_text(exchange.method, request))
    arguments = _arguments_text(exchange, request, is_changed)[:MAX_TEXT_LENGTH]
    if item_count := _item_count_text(index, exchange):
        return Summary(arguments, item_count)
    last = last_round(index, exchange)
    result, is_error = _answer_text(exchange, _decoded_message(index, last, last.response))
    has_failed = is_error and exchange.status is not Status.NEGOTIATION
    if exchange.response is None and exchange.ended is None and exchange.notifications:
        result = _latest_notification(index, exchange)
    values = _arguments_text(exchange, request, is_changed, only_values=True)
    return Summary(arguments, result[:MAX_TEXT_LENGTH], has_failed, values[:MAX_TEXT_LENGTH])


def _decoded_message(index: Index, exchange: Exchange, number: int | None) -> Any:
    """Return the decoded message of a frame.

    For a large message, return the beginning of its text. None if `number` is None or the frame is missing.
    """
    frame = None if number is None else index.frame(number)
    if frame is None or number is None:
        return None
    if frame.size > MAX_DECODED_BYTES:
        text = _without_head(frame.data[:MAX_TEXT_LENGTH].decode("utf-8", "replace"))
        return text if index.reveals_secrets else mask_text(text)
    try:
        value = _summary_parts(unmasked(index, exchange, number))
    except ValueError:
        return None
    return value if index.reveals_secrets else mask_message(value)


def _summary_parts(value: Any) -> Any:
    """Return the parts of a message that a summary may use. The other parts need not be masked."""
    if not isinstance(value, dict):
        return value
    if isinstance(params := value.get("params"), dict) and isinstance(meta := params.get("_meta"), dict):
        return {**value, "params": {**params, "_meta": {REPLAYED_KEY: meta.get(REPLAYED_KEY)}}}
    if isinstance(result := value.get("result"), dict) and result.get("content"):
        return {**value, "result": {key: member for key, member in result.items() if key != "_meta"}}
    return value


def _without_head(text: str) -> str:
    """Return the beginning of a large message, from its first interesting part on."""
    for text_beginning in _TEXT_BEGINNINGS:
        if text_beginning in text:
            return text.partition(text_beginning)[2]
    return text


def _arguments_text(
    exchange: Exchange, value: Any, is_changed: bool = False, *, only_values: bool = False
) -> str:
    """Return the arguments of a call, or its other parameters that no column shows.

    `is_changed` is True if a person changed them at the desk. `only_values` omits the names of texts.
    """
    text = _parameters_text(exchange, value, only_values=only_values)
    if not is_changed:
        return text
    params = value.get("params") if isinstance(value, dict) else None
    name = params.get("name") if isinstance(params, dict) else None
    has_new_name = isinstance(name, str) and exchange.name and name != exchange.name
    return f"{CHANGED_SIGN} {f'{name} ' if has_new_name else ''}{text}"


def _parameters_text(exchange: Exchange, value: Any, *, only_values: bool) -> str:
    """Return the parameters as text, without the sign for changed arguments."""
    params = value.get("params") if isinstance(value, dict) else None
    if not isinstance(params, dict):
        return value if isinstance(value, str) else ""
    method_rules = METHODS.get(exchange.method)
    meta = params.get("_meta")
    if isinstance(responses := params.get("inputResponses"), dict):
        answers = (answer for answer in responses.values() if isinstance(answer, dict))
        return ", ".join(map(_outcome_text, answers))
    if isinstance(arguments := params.get("arguments"), dict):
        prefix = "replayed: " if isinstance(meta, dict) and meta.get(REPLAYED_KEY) else ""
        return f"{prefix}{_values_text(arguments) if only_values else pairs(arguments)}"
    if exchange.method == "elicitation/create" and isinstance(question := params.get("message"), str):
        return " ".join(filter(None, (_value_text(question, True), _value_text(params.get("url"), True))))
    omitted = {"_meta", method_rules.routing_field if method_rules is not None else ""}
    if exchange.method == "initialize":
        omitted |= {"capabilities", "clientInfo"} if only_values else {"capabilities"}
    parameters = {key: member for key, member in params.items() if key not in omitted}
    return _values_text(parameters) if only_values else pairs(parameters)


def _answer_text(exchange: Exchange, value: Any) -> tuple[str, bool]:
    """Return the summary of a response, and True if it is an error."""
    if not isinstance(value, dict):
        return (value if isinstance(value, str) else ""), False
    if isinstance(error := value.get("error"), dict):
        return f"{error.get('code', '')} {_value_text(error.get('message', ''), True)}".strip(), True
    result = value.get("result")
    if not isinstance(result, dict):
        return _value_text(result), False
    if exchange.method == "elicitation/create":
        return _outcome_text(result), False
    if result.get("isError") is True:
        return _result_text(result).removeprefix(f"{exchange.name} failed: "), True  # the line has the name
    return _result_text(result), False


def _item_count_text(index: Index, exchange: Exchange) -> str:
    """Return the number of items in the response to a list request, or "" if unknown."""
    if exchange.response is None or not exchange.method.endswith("/list"):
        return ""
    frame = index.frame(exchange.response)
    if frame is None or frame.size > MAX_LIST_BYTES:
        return ""
    try:
        value = unmasked(index, exchange, exchange.response)
    except ValueError:
        return ""
    result = value.get("result") if isinstance(value, dict) else None
    if not isinstance(result, dict):
        return ""
    for key in _LIST_MEMBERS:
        if isinstance(items := result.get(key), list):
            plus_sign = "+" if result.get("nextCursor") else ""
            return f"{len(items)}{plus_sign} {_item_noun(key, len(items))}"
    return ""


def _result_text(result: dict[str, Any]) -> str:
    """Summarize a result by its text, its structured content, or its members."""
    if isinstance(input_requests := result.get("inputRequests"), dict):
        requests = (request for request in input_requests.values() if isinstance(request, dict))
        all_params = (request.get("params") for request in requests)
        questions = [
            _value_text(params.get("message", ""), True) for params in all_params if isinstance(params, dict)
        ]
        return f"asks {' · '.join(filter(None, questions))}".strip()
    content = result.get("content") or result.get("contents")
    content = [content] if isinstance(content, dict) else content
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    texts = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
    objects_text = _objects_text(result.get("structuredContent"))
    if not objects_text and texts:
        objects_text = _listed_objects_text(texts[0])
    if objects_text:
        return objects_text
    if texts:
        return _value_text(texts[0], True) + (f" (+{len(blocks) - 1})" if len(blocks) > 1 else "")
    if isinstance(structured := result.get("structuredContent"), dict):
        return pairs(structured)
    if blocks:
        return ", ".join(str(block.get("type") or block.get("mimeType") or "blob") for block in blocks)
    if isinstance(info := result.get("serverInfo"), dict):
        return f"{info.get('name', '')} {info.get('version', '')}".strip()
    omitted = {"_meta", "resultType", "ttlMs", "cacheScope"}
    return pairs({key: member for key, member in result.items() if key not in omitted})


def _outcome_text(answer: dict[str, Any]) -> str:
    """Summarize the answer to a question: `accept: city="Rome"`, or `decline`."""
    action, content = answer.get("action"), answer.get("content")
    if not isinstance(action, str):
        return _result_text(answer)
    return f"{action}: {pairs(content)}" if isinstance(content, dict) and content else action


def _objects_text(structured: Any) -> str:
    """Return text such as `40 objects: id, name` for a list of objects. Empty for other values."""
    is_wrapped = isinstance(structured, dict) and len(structured) == 1
    objects = next(iter(structured.values())) if is_wrapped else structured
    if (
        not isinstance(objects, list)
        or len(objects) < 2
        or not all(isinstance(item, dict) for item in objects)
    ):
        return ""
    keys = list(dict.fromkeys(key for item in objects[:_MAX_KEYS] for key in item))
    ellipsis = ", …" if len(keys) > _MAX_KEYS else ""
    return f"{len(objects)} objects: {', '.join(keys[:_MAX_KEYS])}{ellipsis}"[:MAX_TEXT_LENGTH]


def _listed_objects_text(text: str) -> str:
    """Return a summary such as `40 objects: id, name` for a JSON text with a list of objects.

    Empty for other texts.
    """
    if not (text.startswith("[") and text.endswith("]")):
        return ""
    try:
        return _objects_text(codec.decode(text.encode()))
    except ProtocolError:
        return ""


def _latest_notification(index: Index, exchange: Exchange) -> str:
    """Return the summary of the latest notification of a running call."""
    frame = exchange.notifications[-1]
    rows = index.rows_of(frame)
    if not rows:
        return ""
    notification = index.exchange(rows[0])
    return _notification_text(notification.method, _decoded_message(index, notification, frame))


def _notification_text(method: str, value: Any) -> str:
    """Return the summary of a notification."""
    params = value.get("params") if isinstance(value, dict) else None
    if not isinstance(params, dict):
        return value[:MAX_TEXT_LENGTH] if isinstance(value, str) else ""
    if method == "notifications/progress":
        progress, total = params.get("progress"), params.get("total")
        text = _value_text(params.get("message", ""), True)
        if text and total is None and isinstance(progress, int | float) and abs(progress) < MIN_PROGRESS:
            return text
        amount = (
            f"{_value_text(progress)} of {_value_text(total)}" if total is not None else _value_text(progress)
        )
        return f"{amount} · {text}" if text else amount
    if method == "notifications/message":
        return f"{params.get('level', '')} {_value_text(params.get('data', ''), True)}".strip()
    return pairs({key: member for key, member in params.items() if key != "_meta"})


def pairs(values: dict[str, Any]) -> str:
    """Return `name=value` for each member."""
    return ", ".join(f"{key}={_value_text(value)}" for key, value in values.items())[:MAX_TEXT_LENGTH]


def _values_text(arguments: dict[str, Any]) -> str:
    """Return texts without names, and other values with names: `lamp, pieces=3, deep`. Skip empty values."""
    texts = (
        key
        if value is True
        else _value_text(value, True)
        if isinstance(value, str)
        else f"{key}={_value_text(value)}"
        for key, value in arguments.items()
        if value not in ("", None, [], {})
    )
    return ", ".join(texts)[:MAX_TEXT_LENGTH]


def _value_text(value: Any, is_bare: bool = False) -> str:
    """Return a value as JSON, but without escapes in texts, because a person reads it.

    If `is_bare`, a single text is returned without quotes. JSON in a text also has no quotes around it.
    """
    if isinstance(value, str):
        text = _without_escapes(" ".join(value[:_MAX_READ_LENGTH].split()))
        return (
            text[:MAX_TEXT_LENGTH]
            if is_bare or text.startswith(("{", "["))
            else f'"{text}"'[:MAX_TEXT_LENGTH]
        )
    if value is None and is_bare:
        return ""
    encoded = codec.encode(value).decode("utf-8", "replace")[:_MAX_READ_LENGTH]
    return _without_escapes(encoded, is_encoded=True)[:MAX_TEXT_LENGTH]


def _without_escapes(text: str, *, is_encoded: bool = False) -> str:
    """Return a text with quotes and blanks instead of the escapes of JSON within JSON.

    `is_encoded` is True if the text itself is JSON. Other texts change only if they contain escaped quotes.
    """
    for level in range(_MAX_NESTING):
        if '\\"' not in text and not (is_encoded and level == 0):
            break
        text = _ESCAPE.sub(lambda match: _ESCAPED_CHARACTERS.get(match[1], " "), text)
    return text


def _item_noun(key: str, count: int) -> str:
    """Return the noun for a number of list items, such as `tool` or `templates`."""
    plural = {"resourceTemplates": "templates"}.get(key, key)
    return plural.removesuffix("s") if count == 1 else plural
