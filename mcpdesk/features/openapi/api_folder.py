"""Generates the files of a server folder whose tools call the service in an OpenAPI document.

A person may change these files. The document is untrusted: its content appears in the files only as string
literals, numbers, and names made of letters and digits.
"""

from __future__ import annotations

import builtins
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from mcpdesk.features.openapi.api_document import (
    ApiBody,
    ApiDocument,
    ApiParameter,
    Operation,
    UnsupportedOperation,
)
from mcpdesk.features.openapi.api_types import (
    MODELS,
    WIDTH,
    Hint,
    TypeWriter,
    docstring,
    import_lines,
    one_line,
    quoted,
    snake_case,
    unique_name,
    words,
)
from mcpdesk.features.openapi.service_module import service_module
from mcpdesk.hosting.folder.manifest import SCHEMA_URL
from mcpdesk.hosting.folder.module_items import dashed

SERVICE = "service"
MAX_QUALIFIED_NAME_LENGTH = 57
"""Maximum total length of a server's name and a tool's name. Limits of known clients require this."""
MAX_FIELDS = 20
"""Maximum number of body members that become separate parameters."""
MAX_TITLE_LENGTH = 60
"""Maximum length in characters of a summary that becomes the title of a tool."""
RESERVED_NAMES = frozenset({*dir(builtins), "call", "context", "ctx", "dumps", "models", "service", "tool"})
"""Names that a module of tools imports or uses. A function with such a name would replace the original."""


class ApiFolder(Struct, frozen=True):
    """Files of a server folder, and operations without a tool."""

    files: Mapping[str, str]
    """Texts by path in the folder, `mcp.json` first."""
    tools: tuple[str, ...]
    """Names of the tools."""
    left_out: tuple[str, ...]
    """One sentence about each operation without a tool."""
    variables: tuple[str, ...]
    """Environment variables that some tools require."""


class ToolParameter(Struct, frozen=True):
    """A parameter of a tool's function, and its location in the request."""

    name: str
    """Name in Python."""
    wire_name: str
    """Name in the request."""
    location: str
    """Location: `path`, `query`, `header`, `cookie`, `field` (of the body) or `body`."""
    hint: Hint
    is_required: bool
    description: str
    default: str = ""
    """Default as a Python literal. Empty for None."""
    expression: str = ""
    """Python expression whose value is sent. Empty to send the parameter itself."""


def make_api_folder(document: ApiDocument, name: str) -> ApiFolder:
    """Generate the files of the folder `name` for a service."""
    types = TypeWriter(document.resolve)
    prefix = "_".join(words(name)).upper()
    variables = {key: _variable(prefix, key, document) for key in document.keys}
    needs_url = () if document.url else (f"{prefix}_URL",)
    modules = dict[str, _ToolModule]()
    used_names = set(RESERVED_NAMES)
    tools = list[str]()
    left_out = list(document.left_out)
    for operation in document.operations:
        module_name = _module_name(operation.tag)
        function_name = _function_name(operation, used_names, max(8, MAX_QUALIFIED_NAME_LENGTH - len(name)))
        try:
            text, imports, cases = _tool_function(
                function_name, operation, types, [*needs_url, *_variables_of(variables, operation)]
            )
        except UnsupportedOperation as reason:
            left_out.append(f"{operation.id} {reason}")
            continue
        used_names.add(function_name)
        tools.append(dashed(function_name))
        tag_description = document.tags.get(operation.tag, "")
        module = modules.setdefault(module_name, _ToolModule(operation.tag, tag_description))
        module.functions.append(text)
        module.imports |= imports
        module.cases += cases
    used_keys = {key for each in document.operations for key in each.keys}
    files = {
        "mcp.json": _manifest(document, name),
        f"{SERVICE}.py": service_module(
            document, f"{prefix}_URL", {key: variables[key] for key in variables if key in used_keys}
        ),
        "context.py": CONTEXT_MODULE,
        **({f"{MODELS}.py": text} if (text := types.module()) else {}),
        **{f"tools/{module_name}.py": module.text() for module_name, module in modules.items()},
        "resources/about.md": _about(document, left_out),
        "cases/offline.yaml": _cases(document, [case for each in modules.values() for case in each.cases]),
    }
    variable_names = [*needs_url, *(variables[key] for key in variables if key in used_keys)]
    return ApiFolder(files, tuple(tools), tuple(left_out), tuple(dict.fromkeys(variable_names)))


class _ToolModule:
    """A file of tools that is being generated."""

    def __init__(self, tag: str, description: str) -> None:
        self._about = f"{tag}: {description}" if description else f"Operations of {tag or 'the service'}."
        self.functions = list[str]()
        self.imports = {"mcpdesk.Context", "mcpdesk.tool", f"{SERVICE}.call", "typing.Any"}
        self.cases = list[str]()

    def text(self) -> str:
        head = docstring(self._about, {}, "", "")
        return "\n\n".join([f"{head}\n\n{import_lines(self.imports)}\n", *self.functions])


def _variables_of(variables: Mapping[str, str], operation: Operation) -> list[str]:
    """Return the environment variables of the keys that an operation requires."""
    return [variables[key] for key in operation.keys]


def _variable(prefix: str, key: str, document: ApiDocument) -> str:
    """Return the environment variable for a key."""
    suffix = {"bearer": "TOKEN", "basic": "USER_AND_PASSWORD"}.get(document.keys[key].location, "KEY")
    same_kind = [each for each in document.keys.values() if each.location == document.keys[key].location]
    middle = "_".join(words(key)).upper() if len(same_kind) > 1 else ""
    return "_".join(part for part in (prefix, middle, suffix) if part)


def _readable_id(operation: Operation) -> str:
    """Return the operation id, or method and path in words.

    If an id ends with path and method, as ids of FastAPI do, this end is removed.
    """
    suffix = re.sub(r"\W", "_", operation.path) + f"_{operation.method.lower()}"
    if operation.id.endswith(suffix) and operation.id != suffix:
        return operation.id.removesuffix(suffix)
    if operation.id != f"{operation.method.lower()} {operation.path}":
        return operation.id
    verb = {"get": "get", "post": "create", "put": "replace", "patch": "change"}.get(operation.method.lower())
    path = re.sub(r"\{([^{}]*)\}", r"by \1", operation.path)
    return f"{verb or operation.method.lower()} {path}"


def _function_name(operation: Operation, used_names: set[str], max_length: int) -> str:
    """Return an unused function name. `list` becomes `list_`, but the tool is still called `list`."""
    name = snake_case(_readable_id(operation), "call")
    if name in RESERVED_NAMES and f"{name}_" not in used_names:
        return f"{name}_"
    return unique_name(name, used_names, max_length)


def _module_name(tag: str) -> str:
    """Return the name of the module for a tag, without `.py`.

    The name differs from those of other modules in the folder and in the standard library.
    """
    name = snake_case(tag, "operations")[:40].strip("_")
    used_names = {SERVICE, MODELS, "context", "aiohttp", "mcpdesk"}
    return f"{name}_tools" if name in used_names or name in sys.stdlib_module_names else name


def _tool_function(
    function_name: str, operation: Operation, types: TypeWriter, variables: Sequence[str]
) -> tuple[str, set[str], list[str]]:
    """Return the text of a tool's function, its imports, and test cases for it. Raises:
    UnsupportedOperation.
    """
    parameters = list(_parameters(operation, types))
    required = [each for each in parameters if each.is_required]
    optional = [each for each in parameters if not each.is_required]
    imports = {name for each in parameters for name in each.hint.imports}
    if any("dumps(" in each.expression for each in parameters):
        imports.add("json.dumps")
    signature = ["ctx: Context"]
    signature += [f"{each.name}: {each.hint.bounded}" for each in required]
    signature += [f"{each.name}: {_optional_hint(each)} = {each.default or 'None'}" for each in optional]
    descriptions = {each.name: each.description for each in (*required, *optional)}
    description = operation.description or operation.summary or f"Call {operation.method} {operation.path}"
    decorator = _bracketed("@tool", _decorator_arguments(operation, variables))
    head = _bracketed(f"async def {function_name}", signature, " -> Any:")
    call = _bracketed("    return await call", _call_arguments(operation, parameters))
    text = f"{decorator}\n{head}\n{docstring(description, descriptions, 'Args')}\n{call}\n"
    return text, imports, [] if variables else _offline_cases(function_name, required)


def _optional_hint(parameter: ToolParameter) -> str:
    """Return the type hint of an optional parameter, which accepts None unless it has a default."""
    hint_text = parameter.hint.bounded
    is_complete = parameter.default or parameter.hint.is_nullable or parameter.hint.kind == "any"
    return hint_text if is_complete else f"{hint_text} | None"


def _decorator_arguments(operation: Operation, variables: Sequence[str]) -> list[str]:
    """Return the arguments of the decorator `@tool`."""
    keywords = list[str]()
    title = one_line(operation.summary).rstrip(".")
    if title and len(title) <= MAX_TITLE_LENGTH and operation.description:
        keywords.append(f"title={quoted(title)}")
    match operation.method:
        case "GET" | "HEAD" | "OPTIONS" | "TRACE":
            keywords.append("read_only=True")
        case "PUT" | "DELETE":
            keywords += [*(["destructive=True"] if operation.method == "DELETE" else []), "idempotent=True"]
        case _:
            keywords.append("read_only=False")
    names = list(dict.fromkeys(variables))
    if names:
        names_text = quoted(names[0]) if len(names) == 1 else f"({', '.join(map(quoted, names))})"
        keywords.append(f"requires_env={names_text}")
    return keywords


def _parameters(operation: Operation, types: TypeWriter) -> Iterator[ToolParameter]:
    """Yield the parameters of a tool, each with a unique name. Raises: UnsupportedOperation."""
    used_names = {"ctx", "context", "call", "dumps"}
    for each in operation.parameters:
        name = snake_case(each.name, "value")
        name = unique_name(f"{name}_in_{each.location}", used_names) if name in used_names else name
        used_names.add(name)
        yield _request_parameter(each, name, types)
    body = operation.body
    if body is None:
        return
    fields = list(_fields(operation, body, types, set(used_names)))
    if fields:
        yield from fields
        return
    hint = Hint("str", "str") if body.kind == "text" else types.hint(body.schema, f"{operation.id}_body")
    name = unique_name("body", used_names)
    description = body.description or "Request body."
    yield ToolParameter(name, "", "body", hint, body.is_required, description)


def _request_parameter(parameter: ApiParameter, name: str, types: TypeWriter) -> ToolParameter:
    """Return the tool parameter `name` for a parameter of the operation. Raises: UnsupportedOperation."""
    hint = types.hint(parameter.schema, parameter.name)
    expression = ""
    if parameter.is_json:
        expression = _unless_none(name, f"dumps({name})", parameter.is_required)
    elif parameter.style == "deepObject" and hint.kind in ("object", "any"):
        key = quoted(parameter.name)[1:-1].replace("{", "{{").replace("}", "}}")
        dict_expression = f'{{f"{key}[{{key}}]": value for key, value in {name}.items()}}'
        expression = (
            f"**{dict_expression}" if parameter.is_required else f"**({dict_expression} if {name} else {{}})"
        )
    elif hint.kind == "object" and parameter.location == "query" and parameter.explode:
        expression = f"**{name}" if parameter.is_required else f"**({name} or {{}})"
    elif parameter.style in ("label", "matrix"):
        expression = _path_expression(parameter, name, hint)
    elif hint.kind == "object":
        separator_text = "=" if parameter.explode else ","
        members = f'",".join(f"{{key}}{separator_text}{{value}}" for key, value in {name}.items())'
        expression = _unless_none(name, members, parameter.is_required)
    elif hint.kind == "list" and not (parameter.location == "query" and parameter.explode):
        separator = {"spaceDelimited": " ", "pipeDelimited": "|"}.get(parameter.style, ",")
        expression = _unless_none(
            name, f'"{separator}".join(f"{{each}}" for each in {name})', parameter.is_required
        )
    description = parameter.description or _DEFAULT_DESCRIPTIONS[parameter.location].format(
        one_line(parameter.name)
    )
    default = "" if parameter.is_required else _default(parameter.schema, hint, types)
    return ToolParameter(
        name,
        parameter.name,
        parameter.location,
        hint,
        parameter.is_required,
        description,
        default,
        expression,
    )


def _path_expression(parameter: ApiParameter, name: str, hint: Hint) -> str:
    """Return the expression for a path parameter of style `label` or `matrix`.

    Raises: UnsupportedOperation.
    """
    if hint.kind == "object":
        raise UnsupportedOperation(f"has an object of style {parameter.style} in its path")
    prefix = "."
    if parameter.style == "matrix":
        prefix = f";{quoted(parameter.name)[1:-1].replace('{', '{{').replace('}', '}}')}="
    if hint.kind != "list":
        return f'f"{prefix}{{{name}}}"'
    if parameter.explode:
        return f'"".join(f"{prefix}{{each}}" for each in {name})'
    return f'f"{prefix}" + ",".join(f"{{each}}" for each in {name})'


_DEFAULT_DESCRIPTIONS = {
    "path": "`{}` of the path.",
    "query": "`{}` of the query.",
    "header": "The header `{}`.",
    "cookie": "The cookie `{}`.",
}
"""Descriptions of parameters that the document does not describe."""


def _unless_none(name: str, expression: str, is_required: bool) -> str:
    """Return the expression, or one that is None if the optional parameter `name` is None."""
    return expression if is_required else f"None if {name} is None else {expression}"


def _fields(
    operation: Operation, body: ApiBody, types: TypeWriter, used_names: set[str]
) -> Iterator[ToolParameter]:
    """Yield the members of a body as separate parameters.

    Yield nothing if the body may have other members, has too many members, or has a member for which null
    and an omitted value have different meanings.
    """
    members = types.members(body.schema) if body.kind in ("json", "form") else None
    if members is None or not members.properties or members.additional not in (None, False):
        return
    hints = {key: types.hint(each, key) for key, each in members.properties.items()}
    # A tool omits a parameter that is None. This would be wrong for a required member, and for each member
    # of an update, where null may delete a value.
    keys_with_significant_null = members.required if operation.method == "POST" else hints.keys()
    if len(hints) > MAX_FIELDS or any(hint.kind == "any" for hint in hints.values()):
        return
    if any(hints[key].is_nullable for key in keys_with_significant_null):
        return
    for key, hint in hints.items():
        name = unique_name(snake_case(key, "value"), used_names)
        used_names.add(name)
        schema = members.properties[key]
        resolved = types.resolved(schema)
        description = str(
            schema.get("description")
            or resolved.get("description")
            or f"`{one_line(key)}` of the request body."
        )
        is_required = body.is_required and key in members.required
        yield ToolParameter(name, key, "field", hint, is_required, description)


def _default(schema: Mapping[str, object], hint: Hint, types: TypeWriter) -> str:
    """Return the default of a simple parameter as a literal, if it is within the bounds."""
    value = types.resolved(schema).get("default")
    has_type = {
        "str": isinstance(value, str),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
        "bool": isinstance(value, bool),
    }.get(hint.kind, False)
    if not has_type or (hint.text.startswith("Literal[") and literal(value) not in hint.text):
        return ""
    return literal(value) if not hint.bounds or _is_within_bounds(value, schema, types) else ""


def _is_within_bounds(value: object, schema: Mapping[str, object], types: TypeWriter) -> bool:
    from mcpdesk.server.schemas.validation import SchemaError, compile_schema

    bounds = {
        key: each for key, each in types.resolved(schema).items() if key in _BOUNDS and each is not None
    }
    try:
        return compile_schema(bounds).accepts(value)
    except SchemaError:
        return False


_BOUNDS = frozenset({"minimum", "maximum", "minLength", "maxLength", "pattern"})
"""Keywords that limit a value. Exclusive bounds are not included, because they are flags in OpenAPI 3.0."""


def literal(value: object) -> str:
    """Return a simple value as a Python literal."""
    return quoted(value) if isinstance(value, str) else repr(value)


_BODY_KEYWORDS = {"json": "body", "form": "form", "text": "text"}


def _call_arguments(operation: Operation, parameters: Sequence[ToolParameter]) -> list[str]:
    """Return the arguments of `call`."""
    call_arguments = ["ctx", quoted(operation.method), quoted(operation.path)]
    for location, keyword in (
        ("path", "values"),
        ("query", "query"),
        ("header", "headers"),
        ("cookie", "cookies"),
        ("field", "form" if operation.body and operation.body.kind == "form" else "fields"),
    ):
        items = [
            each.expression
            if each.expression.startswith("**")
            else f"{quoted(each.wire_name)}: {each.expression or each.name}"
            for each in parameters
            if each.location == location
        ]
        if items:
            call_arguments.append(_bracketed(f"{keyword}=", items, "", "{}", 8))
    body = operation.body
    for each in parameters:
        if each.location == "body" and body is not None:
            call_arguments.append(f"{_BODY_KEYWORDS[body.kind]}={each.name}")
    if body is not None and body.kind == "json" and body.content_type != "application/json":
        call_arguments.append(f"content_type={quoted(body.content_type)}")
    if operation.keys:
        call_arguments.append(f"keys=({', '.join(map(quoted, operation.keys))},)")
    return call_arguments


def _bracketed(head: str, items: Sequence[str], end: str = "", brackets: str = "()", indent: int = -1) -> str:
    """Return `head`, the items in brackets, and `end`: on one line if they fit, otherwise one item per line.

    `indent` is the indentation of the last line, or -1 for the indentation of `head`.
    """
    line = f"{head}{brackets[0]}{', '.join(items)}{brackets[1]}{end}"
    if "\n" not in line and len(line) + max(indent, 0) <= WIDTH:
        return line
    margin = " " * (indent if indent >= 0 else len(head) - len(head.lstrip()))
    return "\n".join(
        [f"{head}{brackets[0]}", *(f"{margin}    {item}," for item in items), f"{margin}{brackets[1]}{end}"]
    )


def _manifest(document: ApiDocument, name: str) -> str:
    address_text = f" at {document.url}" if document.url else ""
    content = {
        "$schema": SCHEMA_URL,
        "name": name,
        "title": one_line(document.title)[:80],
        "version": document.version,
        "description": _first_sentence(document.description or document.title),
        "instructions": f"Each tool calls an operation of {one_line(document.title)[:80]}{address_text}.",
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s|\n\s*\n", text.strip(), maxsplit=1)[0].replace("\n", " ")[:200]


def _about(document: ApiDocument, left_out: Sequence[str]) -> str:
    """Return the text of a resource about the service."""
    title = one_line(document.title)
    lines = [
        "---",
        f"title: {json.dumps(title, ensure_ascii=False)}",
        "description: About the service that the tools call, and its operations without a tool.",
        "---",
        f"# {title} {one_line(document.version)}",
        "",
        document.description.strip() or "The document does not describe this service.",
    ]
    if left_out:
        lines += ["", "## Operations without a tool", "", *(f"* {one_line(each)}" for each in left_out)]
    return "\n".join(lines) + "\n"


def _offline_cases(function_name: str, required: Sequence[ToolParameter]) -> list[str]:
    """Return a list with a test case that calls the tool without its first required parameter. Empty if the
    tool has no required parameter.
    """
    if not required:
        return []
    tool = dashed(function_name)
    return [
        f"- name: {tool} needs {required[0].name}\n  tool: {tool}\n  expect: {{error: {required[0].name}}}\n"
    ]


def _cases(document: ApiDocument, cases: Sequence[str]) -> str:
    """Return test cases that pass without the service."""
    title = json.dumps(one_line(document.title), ensure_ascii=False)
    comment = "# `mcpdesk test` runs these cases without the service. Add cases that call it.\n"
    resource_case = "- name: read about the service\n  resource: resource://about\n"
    resource_case += f"  expect: {{contains: {title}}}\n"
    return "\n".join([comment + resource_case, *cases[:3]])


CONTEXT_MODULE = '''"""One HTTP client for all tools. It is open while the server runs."""

from collections.abc import AsyncIterator

import aiohttp


async def lifespan(server: object) -> AsyncIterator[aiohttp.ClientSession]:
    """Tools use it as `ctx.state`. It keeps no cookies, because callers must not share them."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield session
'''
