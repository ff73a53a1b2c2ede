"""Operations of an OpenAPI document (3.0 or 3.1, JSON or YAML), with local `$ref`s resolved.

This module does not generate code or use server folders. The document is untrusted: its size, depth and
references are limited. An unsupported operation is left out, with a reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from mcpdesk.errors import DeskUserError
from mcpdesk.plain_text import clean
from mcpdesk.protocol.catalogue.bounded_yaml import YamlFault, load_yaml
from mcpdesk.protocol.catalogue.yaml_core import core_loader

MAX_BYTES = 16 << 20
"""Maximum size of a document in bytes."""
METHODS = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})
"""Members of a path item that are operations."""
SUPPORTED_VERSION = re.compile(r"3\.[01](?:\.\d+)?(?:-\S*)?")
JSON_TYPE = re.compile(r"application/(?:[\w.+-]+\+)?json(?:\s*;.*)?|\*/\*", re.IGNORECASE)
FORM_TYPE = "application/x-www-form-urlencoded"
MAX_REFERENCE_CHAIN = 32
"""Maximum length of a chain of references."""
MAX_LISTED_NAMES = 12
"""Maximum number of names in one message."""
IGNORED_HEADERS = frozenset({"accept", "content-type", "authorization"})
"""Header parameters that must be ignored according to the specification."""


class UnsupportedOperation(Exception):
    """An operation cannot be offered as a tool. The message has the reason."""


class ApiParameter(Struct, frozen=True):
    """One parameter of an operation."""

    name: str
    location: str
    """Location: `path`, `query`, `header` or `cookie`."""
    schema: Mapping[str, Any]
    description: str = ""
    is_required: bool = False
    style: str = ""
    """Serialization style of OpenAPI, such as `form` or `deepObject`."""
    explode: bool = True
    """True if each item of a list or object is sent separately."""
    is_json: bool = False
    """True if the value of the parameter is sent as JSON text."""


class ApiBody(Struct, frozen=True):
    """Request body of an operation."""

    kind: str
    """Encoding: `json`, `form` or `text`."""
    content_type: str
    schema: Mapping[str, Any]
    description: str = ""
    is_required: bool = False


class ApiKey(Struct, frozen=True):
    """Method of authentication at a service."""

    name: str
    """Name of the security scheme in the document."""
    location: str
    """Location: `header`, `query`, `cookie`, `bearer` or `basic`."""
    parameter: str = ""
    """Name of the header, query parameter or cookie."""


class Operation(Struct, frozen=True):
    """One operation of a service."""

    id: str
    """The `operationId`, or method and path if the operation has no id."""
    method: str
    path: str
    tag: str = ""
    """First tag, or "" if the operation has none."""
    summary: str = ""
    description: str = ""
    parameters: tuple[ApiParameter, ...] = ()
    body: ApiBody | None = None
    keys: tuple[str, ...] = ()
    """Names of the required keys in `ApiDocument.keys`."""


class ApiDocument(Struct, frozen=True):
    """Description of a service."""

    title: str
    version: str
    description: str
    url: str
    """URL of the service, or "" if the document has none."""
    tags: Mapping[str, str]
    """Descriptions by tag."""
    keys: Mapping[str, ApiKey]
    operations: tuple[Operation, ...]
    left_out: tuple[str, ...]
    """One sentence about each operation that is left out."""
    resolve: Callable[[Any], Any]
    """Function that resolves the references of a schema."""


def read_document(file: Path, tags: Sequence[str] = (), operations: Sequence[str] = ()) -> ApiDocument:
    """Read a document with the operations that have one of the tags or ids.

    Without tags and ids, read all operations. A deprecated operation is read only if its id is in
    `operations`. Raises: DeskUserError for a file that is not such a document, and for unknown tags and ids.
    """
    root = _content(file)
    reader = _Reader(root)
    supported_operations = list[Operation]()
    left_out = list[str]()
    selected_names = set(tags) | set(operations)
    document_tags = dict[str, None]()
    document_ids = dict[str, None]()
    for path, method, path_item, raw in reader.raw_operations():
        operation_id = _id_of(raw, method, path)
        tag = _text(next(iter(_list(raw.get("tags"))), ""))
        document_tags[tag] = None
        document_ids[operation_id] = None
        if selected_names and not (tag in tags or operation_id in operations):
            continue
        if raw.get("deprecated") is True and operation_id not in operations:
            left_out.append(f"{operation_id} is deprecated")
            continue
        try:
            supported_operations.append(reader.operation(operation_id, method, path, tag, path_item, raw))
        except UnsupportedOperation as reason:
            left_out.append(f"{operation_id} {reason}")
    left_out = [*reader.left_out, *left_out]
    for noun, names, document_names in (
        ("tag", tags, document_tags),
        ("operation", operations, document_ids),
    ):
        if missing := [each for each in names if each not in document_names]:
            raise DeskUserError(
                f"{file} has no {noun} {missing[0]!r}.",
                f"It has: {_first_names([each for each in document_names if each])}.",
            )
    if not supported_operations:
        raise DeskUserError(
            f"{file} has no operation that can be a tool.",
            "; ".join(left_out[:MAX_LISTED_NAMES]) or "Its paths are empty.",
        )
    info = _mapping(root.get("info"))
    return ApiDocument(
        title=_text(info.get("title")) or file.stem,
        version=_text(info.get("version")) or "0.1.0",
        description=_text(info.get("description")),
        url=_url_of(root.get("servers")),
        tags={
            _text(each.get("name")): _text(each.get("description"))
            for each in map(_mapping, _list(root.get("tags")))
        },
        keys=reader.keys(),
        operations=tuple(supported_operations),
        left_out=tuple(left_out),
        resolve=reader.resolve,
    )


def tag_counts(document: ApiDocument) -> str:
    """Return the tags of the operations, each with the number of its operations."""
    counts = dict[str, int]()
    for each in document.operations:
        counts[each.tag] = counts.get(each.tag, 0) + 1
    return _first_names([f"{tag or '(none)'} {count}" for tag, count in counts.items()])


def _first_names(names: Sequence[str]) -> str:
    """Join the first `MAX_LISTED_NAMES` names. Append the number of the others."""
    more = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
    return ", ".join(names[:MAX_LISTED_NAMES]) + more


def _content(file: Path) -> Mapping[str, Any]:
    """Read and parse the file. Raises: DeskUserError."""
    try:
        size = file.stat().st_size
        data = file.read_bytes() if size <= MAX_BYTES else b""
    except OSError as error:
        raise DeskUserError(f"{file} cannot be read: {error.strerror}.", "Download it first.") from None
    if size > MAX_BYTES:
        raise DeskUserError(f"{file} has {size:,} bytes; a document may have {MAX_BYTES:,}.")
    try:
        text = data.decode("utf-8-sig")
        is_json = text.lstrip()[:1] == "{" or (text.lstrip()[:2] in ("//", "/*") and file.suffix == ".json")
        content = json.loads(text) if is_json else load_yaml(text, core_loader(keeps_zeros=True), MAX_BYTES)
    except json.JSONDecodeError as error:
        raise DeskUserError(f"{file}:{error.lineno}: invalid JSON: {error.msg}.") from None
    except UnicodeDecodeError:
        raise DeskUserError(f"{file} is not UTF-8.") from None
    except YamlFault as fault:
        location = f"{file}:{fault.line}" if fault.line else str(file)
        raise DeskUserError(f"{location}: invalid YAML: {fault}.") from None
    except (ValueError, RecursionError) as error:
        raise DeskUserError(f"{file}: invalid JSON: {str(error).partition(chr(10))[0]}.") from None
    version = content.get("openapi") if isinstance(content, Mapping) else None
    if not isinstance(content, Mapping) or not SUPPORTED_VERSION.fullmatch(str(version)):
        problem = "it is Swagger 2.0" if isinstance(content, Mapping) and "swagger" in content else ""
        if not text.strip():
            problem = "it is empty"
        elif text.lstrip()[:1] == "<":
            problem = "it is a web page or XML; use the address of the JSON or YAML document"
        message = problem or (f"openapi is {version!r}" if version else "it has no member openapi")
        hint = (
            "Use a document of OpenAPI 3.0 or 3.1; converters for Swagger 2.0 exist, such as swagger2openapi."
        )
        raise DeskUserError(f"{file} is not an OpenAPI 3.0 or 3.1 document: {message}.", hint)
    return content


class _Reader:
    """Reads the parts of one document."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self.left_out = list[str]()
        """One sentence about each path item that cannot be read."""

    def resolve(self, value: Any) -> Any:
        """Return a value, or the target of its `$ref`. Raises: UnsupportedOperation."""
        for _ in range(MAX_REFERENCE_CHAIN):
            reference = value.get("$ref") if isinstance(value, Mapping) else None
            if reference is None:
                return value
            value = self._target(str(reference))
        raise UnsupportedOperation(f"refers in a circle: {reference}")

    def _target(self, reference: str) -> Any:
        """Return the value at a JSON pointer in this document. Raises: UnsupportedOperation."""
        if not reference.startswith("#/"):
            raise UnsupportedOperation(f"refers to another file: {_text(reference)[:80]}")
        value: Any = self._root
        for part in reference[2:].split("/"):
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            value = value.get(name) if isinstance(value, Mapping) else None
        if value is None:
            raise UnsupportedOperation(f"refers to a missing definition: {_text(reference)[:80]}")
        return value

    def raw_operations(self) -> Iterator[tuple[str, str, Mapping[str, Any], Mapping[str, Any]]]:
        """Yield path, method, path item and operation of every operation in the document."""
        for path, item in _mapping(self._root.get("paths")).items():
            try:
                item = _mapping(self.resolve(item))
            except UnsupportedOperation as reason:
                self.left_out.append(f"{_text(path)} {reason}")
                continue
            for method, operation in item.items():
                if method in METHODS and isinstance(operation, Mapping):
                    yield str(path), str(method), item, operation

    def operation(
        self,
        operation_id: str,
        method: str,
        path: str,
        tag: str,
        path_item: Mapping[str, Any],
        raw: Mapping[str, Any],
    ) -> Operation:
        """Return one operation. `raw` is the operation in the document. Raises: UnsupportedOperation."""
        parameters = dict[tuple[str, str], ApiParameter]()
        for each in (*_list(path_item.get("parameters")), *_list(raw.get("parameters"))):
            parameter = self._parameter(_mapping(self.resolve(each)))
            if parameter.location != "header" or parameter.name.lower() not in IGNORED_HEADERS:
                parameters[parameter.location, parameter.name] = parameter
        described_names = {name for location, name in parameters if location == "path"}
        undescribed_names = set(re.findall(r"\{([^{}]+)\}", path)) - described_names
        if undescribed_names:
            raise UnsupportedOperation(f"does not describe {{{min(undescribed_names)}}} of its path")
        return Operation(
            id=operation_id,
            method=method.upper(),
            path=path,
            tag=tag,
            summary=_text(raw.get("summary")),
            description=_text(raw.get("description")),
            parameters=tuple(parameters.values()),
            body=self._body(raw.get("requestBody")),
            keys=self._needed_keys(raw.get("security", self._root.get("security"))),
        )

    def _parameter(self, raw: Mapping[str, Any]) -> ApiParameter:
        """Parse a parameter object of OpenAPI. Raises: UnsupportedOperation."""
        name, location = str(raw.get("name", "")), str(raw.get("in", ""))
        if location not in ("path", "query", "header", "cookie"):
            raise UnsupportedOperation(f"has a parameter in {_text(location)!r}")
        if location in ("header", "cookie") and not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise UnsupportedOperation(f"has a {location} called {_text(name)!r}")
        content = next(iter(_mapping(raw.get("content")).items()), None)
        if content is not None and not JSON_TYPE.fullmatch(str(content[0])):
            raise UnsupportedOperation(f"has a parameter of {_text(content[0])}")
        schema = _mapping(_mapping(content[1]).get("schema") if content else raw.get("schema"))
        style = str(raw.get("style") or ("form" if location in ("query", "cookie") else "simple"))
        return ApiParameter(
            name=name,
            location=location,
            schema=schema,
            description=_text(raw.get("description") or schema.get("description")),
            is_required=location == "path" or raw.get("required") is True,
            style=style,
            explode=bool(raw.get("explode", style == "form")),
            is_json=content is not None,
        )

    def _body(self, raw: Any) -> ApiBody | None:
        """Parse a request body object of OpenAPI. Raises: UnsupportedOperation."""
        if raw is None:
            return None
        body = _mapping(self.resolve(raw))
        contents = {str(name): _mapping(each) for name, each in _mapping(body.get("content")).items()}
        supported = [(kind, name) for kind, fits in _BODY_KINDS.items() for name in contents if fits(name)]
        if not supported:
            if contents:
                raise UnsupportedOperation(
                    f"takes a body of {_first_names(list(map(_text, contents)))}, which is not supported"
                )
            return None
        kind, content_type = supported[0]
        schema = _mapping(contents[content_type].get("schema"))
        is_required = body.get("required") is True
        sent_type = "application/json" if content_type == "*/*" else content_type
        return ApiBody(kind, sent_type, schema, _text(body.get("description")), is_required)

    def keys(self) -> dict[str, ApiKey]:
        """Return the keys of the document that this program supports, by name."""
        schemes = _mapping(_mapping(self._root.get("components")).get("securitySchemes"))
        api_keys = dict[str, ApiKey]()
        for name, definition in schemes.items():
            try:
                scheme = _mapping(self.resolve(definition))
            except UnsupportedOperation:
                continue
            kind, http_scheme = str(scheme.get("type")), str(scheme.get("scheme", "")).lower()
            if kind == "apiKey" and scheme.get("in") in ("header", "query", "cookie"):
                api_keys[str(name)] = ApiKey(str(name), str(scheme["in"]), str(scheme.get("name", "")))
            elif kind in ("oauth2", "openIdConnect") or (kind == "http" and http_scheme == "bearer"):
                api_keys[str(name)] = ApiKey(str(name), "bearer")
            elif kind == "http" and http_scheme == "basic":
                api_keys[str(name)] = ApiKey(str(name), "basic")
        return api_keys

    def _needed_keys(self, raw: Any) -> tuple[str, ...]:
        """Return the names of the keys that an operation requires. `raw` is its `security` member.

        If `raw` has alternatives, use the first one whose keys are all supported. Empty if no key is
        required. Raises: UnsupportedOperation.
        """
        alternatives = [list(_mapping(each)) for each in _list(raw)]
        if not alternatives or [] in alternatives:
            return ()
        supported = self.keys()
        for names in alternatives:
            if all(name in supported for name in names):
                return tuple(map(str, names))
        raise UnsupportedOperation(
            f"requires {_first_names(list(map(_text, alternatives[0])))}, which is not supported"
        )


_BODY_KINDS: dict[str, Callable[[str], bool]] = {
    "json": lambda name: JSON_TYPE.fullmatch(name) is not None,
    "form": lambda name: name.partition(";")[0].strip().lower() == FORM_TYPE,
    "text": lambda name: name.partition(";")[0].strip().lower() == "text/plain",
}
"""Supported encodings of bodies, in order of preference."""


def _id_of(raw: Mapping[str, Any], method: str, path: str) -> str:
    return _text(raw.get("operationId")) or f"{method} {_text(path)}"


def _url_of(servers: Any) -> str:
    """Return the first server's URL with default variables, or "" if the result is not an address."""
    server = _mapping(next(iter(_list(servers)), None))
    url = _text(server.get("url"))
    for name, variable in _mapping(server.get("variables")).items():
        url = url.replace(f"{{{name}}}", _text(_mapping(variable).get("default")))
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    is_address = parts.scheme in ("http", "https") and parts.netloc and "{" not in url
    return url.rstrip("/") if is_address else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    """Return a text of the document without control characters."""
    return clean(str(value)).strip() if isinstance(value, str | int | float) else ""
