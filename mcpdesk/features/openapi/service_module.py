"""Text of `service.py` in a folder generated from an OpenAPI document. The module calls the service."""

from __future__ import annotations

from collections.abc import Mapping

from mcpdesk.features.openapi.api_document import ApiDocument
from mcpdesk.features.openapi.api_types import one_line, quoted


def service_module(document: ApiDocument, url_variable: str, variables: Mapping[str, str]) -> str:
    """Return the text of the module.

    `url_variable` is the environment variable with the service's URL. `variables` has the environment
    variable of each key in use, by name of the key.
    """
    keys = "".join(
        f"    {quoted(name)}: ({quoted(key.location)}, {quoted(key.parameter)}, {quoted(variable)}),\n"
        for name, variable in variables.items()
        for key in [document.keys[name]]
    )
    title = one_line(document.title).replace("\\", "").replace('"', "'")
    return (
        TEMPLATE.replace("@TITLE@", title)
        .replace("@URL_VARIABLE@", url_variable)
        .replace("@URL@", quoted(document.url))
        .replace("@KEYS@", f"{{\n{keys}}}" if keys else "{}")
    )


TEMPLATE = '''"""Calls @TITLE@: address, authentication, requests and responses."""

import base64
import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import aiohttp
from mcpdesk import Context, fail, image

DEFAULT_URL = @URL@
"""Address of the service, unless the environment variable @URL_VARIABLE@ has another one."""
KEYS: dict[str, tuple[str, str, str]] = @KEYS@
"""Name of a key -> its location and its name in the request, and the variable with its value."""
TIMEOUT_S = 20.0
MAX_BYTES = 4 * 1024 * 1024
"""Maximum size of a response; a larger one is an error."""
MAX_ERROR_LENGTH = 500
"""Maximum length of the service's text in an error, in characters."""
Fields = Mapping[str, Any]
"""Name -> value; None is omitted."""


async def call(
    ctx: Context,
    method: str,
    path: str,
    *,
    values: Fields | None = None,
    query: Fields | None = None,
    headers: Fields | None = None,
    cookies: Fields | None = None,
    fields: Fields | None = None,
    body: Any = None,
    form: Fields | None = None,
    text: str | None = None,
    content_type: str = "application/json",
    keys: tuple[str, ...] = (),
) -> Any:
    """Call the service and return its response: JSON as values, pictures as pictures, anything else as text.

    The call ends with an error if the status is 300 or above, or the response is too large or missing.

    Args:
        ctx: The context of the tool's call.
        method: HTTP method.
        path: Path with `{names}`.
        values: Values of the names in the path.
        query: Query parameters; a list is repeated.
        headers: Headers of the request.
        cookies: Cookies of the request.
        fields: Members of an object to send as JSON.
        body: Value to send as JSON.
        form: Fields to send as a form; a list is repeated.
        text: Text to send.
        content_type: Content type of the body.
        keys: Names of the `KEYS` to send.
    """
    url = (os.environ.get("@URL_VARIABLE@") or DEFAULT_URL).rstrip("/") + _filled_path(path, values or {})
    request_headers = {name: _header(name, value) for name, value in _without_none(headers).items()}
    query_values = _without_none(query).items()
    pairs = [(name, _text(each)) for name, value in query_values for each in _as_list(value)]
    cookie_values = {name: quote(_text(value)) for name, value in _without_none(cookies).items()}
    for key in keys:
        location, name, variable = KEYS[key]
        secret = os.environ[variable]
        if location == "bearer":
            request_headers["Authorization"] = f"Bearer {secret}"
        elif location == "basic":
            request_headers["Authorization"] = "Basic " + base64.b64encode(secret.encode()).decode()
        elif location == "header":
            request_headers[name] = secret
        elif location == "query":
            pairs.append((name, secret))
        else:
            cookie_values[name] = quote(secret)
    if cookie_values:
        cookie_texts = [f"{name}={value}" for name, value in cookie_values.items()]
        request_headers["Cookie"] = "; ".join(cookie_texts)
    data: Any = text
    if fields is not None:
        body = _without_none(fields)
    if body is not None:
        request_headers["Content-Type"] = content_type
        data = json.dumps(body)
    elif form is not None:
        parts = _without_none(form).items()
        form_fields = [(name, _text(each)) for name, value in parts for each in _as_list(value)]
        data = aiohttp.FormData(form_fields)
    session: aiohttp.ClientSession = ctx.state
    try:
        async with session.request(
            method,
            url,
            params=pairs,
            headers=request_headers,
            data=data,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
        ) as response:
            content = await _content(response)
    except TimeoutError:
        fail(f"The service did not answer within {TIMEOUT_S:g} s.")
    except (aiohttp.ClientError, ValueError) as error:
        fail(f"The service cannot be called: {type(error).__name__}: {error}")
    if response.status >= 300:
        details = content.decode("utf-8", "replace").strip()[:MAX_ERROR_LENGTH] or "no details"
        fail(
            f"{method} {path} answered {response.status} {response.reason}: {details}",
            status=response.status,
        )
    return _value(response, content)


async def _content(response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for chunk in response.content.iter_chunked(65536):
        content += chunk
        if len(content) > MAX_BYTES:
            fail(f"The service answered with more than {MAX_BYTES:,} bytes; ask for less.")
    return bytes(content)


def _value(response: aiohttp.ClientResponse, content: bytes) -> Any:
    kind = response.content_type
    if not content:
        return f"{response.status} {response.reason}"
    if kind.startswith("image/"):
        return image(content, kind)
    try:
        text = content.decode(response.charset or "utf-8", "replace")
    except LookupError:
        text = content.decode("utf-8", "replace")
    if kind == "application/json" or kind.endswith("+json"):
        try:
            return json.loads(text)
        except ValueError:
            fail(f"The service answered with JSON that cannot be read: {text[:MAX_ERROR_LENGTH]}")
    return text


def _filled_path(path: str, values: Fields) -> str:
    for name, value in values.items():
        text = _text(value)
        if text in ("", ".", ".."):
            fail(f"{name} cannot be {text!r}: it is a part of the path.")
        path = path.replace("{" + name + "}", quote(text, safe=""))
    return path


def _header(name: str, value: Any) -> str:
    text = _text(value)
    if not text.isprintable():
        fail(f"{name} must be one line of text.")
    return text


def _without_none(fields: Fields | None) -> dict[str, Any]:
    return {name: value for name, value in (fields or {}).items() if value is not None}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool | dict | list) else str(value)
'''
