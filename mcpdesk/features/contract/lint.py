"""Checks of a server's tools, resources and prompts for problems with clients and models.

Clients have different limits, which change over time. Each message therefore names its client.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from mcpdesk.auth.principal import TOKEN_VARIABLE
from mcpdesk.hosting.folder.findings import Finding, Level, from_text, load_errors, registries
from mcpdesk.hosting.folder.manifest import Manifest
from mcpdesk.plain_text import clean, hidden_characters
from mcpdesk.protocol.catalogue.annotations import check_annotations, check_hints
from mcpdesk.protocol.catalogue.uri_template import parsed_template
from mcpdesk.protocol.headers import mirrored_arguments
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.server.offer.prompts import Prompt
from mcpdesk.server.offer.resources import ResourceTemplate
from mcpdesk.server.offer.server import Server
from mcpdesk.server.offer.tool import Tool
from mcpdesk.server.schemas.validation import SchemaError, compile_schema, schema_faults
from mcpdesk.tools import library_problem
from mcpdesk.upstream.offers import Offer

MAX_UNCUT_BYTES = 2048
"""Maximum size in bytes of a tool's description or a server's instructions that Claude Code does not cut."""
MAX_OPENAI_CHARACTERS = 1024
"""Length limit in characters of a function description in OpenAI's API."""
API_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Pattern for tool names that model APIs accept."""
MAX_API_NAME_LENGTH = 64
"""Maximum length in characters of a tool name that model APIs accept."""
MAX_CURSOR_TOOLS = 80
"""Maximum number of tools of all servers together. Cursor warns if there are more."""
BUILT_IN = "built-in"
"""Source of a built-in tool or template, instead of a file and line."""
LARGE_RESOURCE_BYTES = 1 << 20
"""Size in bytes above which a resource is reported."""
MAX_TEXTS = 5_000
"""Maximum number of texts in one definition that are searched for hidden characters."""
MAX_DEPTH = 32
MAX_QUOTED_LENGTH = 120
"""Maximum length in characters of a text quoted in a message about hidden characters."""


def lint(
    server: Server, manifest: Manifest, warnings: tuple[str, ...], environment: Mapping[str, str]
) -> list[Finding]:
    """Return all findings about a hosted server, errors first. `warnings` come from the host."""
    findings = [
        *load_errors(server, warnings),
        *(from_text(Level.NOTE, text) for text in server.helpers),
        *_unavailable(server),
        *_server_findings(server, manifest),
        *_token_check_findings(manifest, environment),
        *_libraries(manifest),
        *_token_needs(server, manifest),
        *(each for tool in server.tools if tool.source != BUILT_IN for each in _tool(tool, server.name)),
        *(each for prompt in server.prompts for each in _prompt(prompt)),
        *(
            each
            for template in server.templates
            if template.source != BUILT_IN
            for each in _template(template)
        ),
        *_resources(server),
        *(
            each
            for tool in server.tools
            for each in _hidden_text_findings(_texts(tool), f"tool {tool.name}", tool.source)
        ),
        *(
            each
            for prompt in server.prompts
            for each in _hidden_text_findings(_texts(prompt), f"prompt {prompt.name}", prompt.source)
        ),
    ]
    return sorted(findings, key=lambda each: list(Level).index(each.level))


def _texts(item: Tool | Prompt) -> JSONObject:
    texts: JSONObject = {"title": item.title, "description": item.description}
    if isinstance(item, Tool):
        return texts | {"inputSchema": item.input_schema}
    return texts | {"arguments": {each.name: each.description for each in item.arguments}}


def _hidden_text_findings(value: Any, subject: str, source: str = "") -> Iterator[Finding]:
    """Yield findings about texts with characters that a model reads but a person does not see.

    The number of findings is limited.
    """
    for path, text in islice(_strings(value), MAX_TEXTS):
        if kinds := hidden_characters(text):
            visible_text = clean(text, newlines=False)
            message = f"{path} has hidden text ({', '.join(kinds)}): {visible_text[:MAX_QUOTED_LENGTH]}"
            yield Finding(Level.WARNING, message, source, subject)


def _strings(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield every text in a JSON value, including keys, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping) and depth < MAX_DEPTH:
        for key, member in value.items():
            member_path = clean(f"{path}.{key}" if path else str(key), newlines=False)
            yield member_path, str(key)
            yield from _strings(member, member_path, depth + 1)
    elif isinstance(value, list) and depth < MAX_DEPTH:
        for index, each in enumerate(value):
            yield from _strings(each, f"{path}[{index}]", depth + 1)


def _unavailable(server: Server) -> Iterator[Finding]:
    """Yield findings about skills and items that the server does not offer."""
    for skill in server.skills.unavailable:
        message = f"is not published to clients: {skill.reason}"
        yield Finding(Level.WARNING, message, skill.source, f"skill {skill.name}")
    for registry in registries(server):
        for each in registry.unavailable:
            if each.is_fit:
                message = f"is not offered: {each.reason}"
                yield Finding(Level.NOTE, message, each.source, f"{registry.kind} {each.name}")


def _server_findings(server: Server, manifest: Manifest) -> Iterator[Finding]:
    """Yield findings about the number of items and the size of the instructions."""
    if not any(len(each) or each.unavailable for each in registries(server)):
        message = "no items: no file in tools/, resources/, prompts/ or skills/, nothing in mcp.json"
        yield Finding(Level.WARNING, message)
    yield from _size_findings(server.instructions, len(server.tools), manifest.source("instructions"))


def _size_findings(instructions: str, tools: int, source: str = "") -> Iterator[Finding]:
    """Yield findings about instructions that are too long, and about too many tools."""
    size = len(instructions.encode("utf-8", "replace"))
    if size > MAX_UNCUT_BYTES:
        message = f"the instructions have {size} bytes; Claude Code cuts them at {MAX_UNCUT_BYTES}"
        yield Finding(Level.WARNING, message, source)
    if tools > MAX_CURSOR_TOOLS:
        limit = f"Cursor takes {MAX_CURSOR_TOOLS} of all servers together"
        message = f"{tools} tools; {limit}. Use modes to offer fewer"
        yield Finding(Level.WARNING, message)


def _token_check_findings(manifest: Manifest, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yield findings if the variable or the file with the keys for JWT tokens is missing."""
    jwt = manifest.auth.jwt
    if jwt is None:
        return
    if jwt.secret_env and not environment.get(jwt.secret_env):
        message = f"auth.jwt.secret_env: {jwt.secret_env} is not set here, so no token is accepted"
        yield Finding(Level.NOTE, message, manifest.source("auth", "jwt", "secret_env"))
    if jwt.jwks_file and not (manifest.folder / jwt.jwks_file).is_file():
        message = f"auth.jwt.jwks_file: file {jwt.jwks_file} does not exist, so no token is accepted"
        yield Finding(Level.WARNING, message, manifest.source("auth", "jwt", "jwks_file"))


def _libraries(manifest: Manifest) -> Iterator[Finding]:
    """Yield notes on built-in tools that need libraries of an optional extra."""
    for name in manifest.builtins:
        if problem := library_problem(name):
            yield Finding(Level.NOTE, problem, manifest.source("builtins"), f"tool {name}")


def _token_needs(server: Server, manifest: Manifest) -> Iterator[Finding]:
    """Yield notes on items that are hidden from stdio clients without a token.

    A stdio client can have a token only in its environment at the start.
    """
    if server.requires_jwt:
        message = (
            f"auth.requires_jwt: over stdio nothing is listed unless {TOKEN_VARIABLE} has the client's token"
        )
        yield Finding(Level.NOTE, message, manifest.source("auth", "requires_jwt"))
        return
    for tool in server.tools:
        if tool.requires_jwt:
            message = f"needs a token: over stdio it is not listed unless {TOKEN_VARIABLE} has one"
            yield Finding(Level.NOTE, message, tool.source, f"tool {tool.name}")


def _tool(tool: Tool, server: str) -> Iterator[Finding]:
    return _tool_findings(tool.name, tool.description, tool.input_schema, server, tool.source)


def _tool_findings(
    name: str, description: str, schema: Mapping[str, Any], server: str, source: str = ""
) -> Iterator[Finding]:
    for message in (*_tool_name(name, server), *_description(description), *parameter_problems(schema)):
        yield Finding(Level.WARNING, message, source, f"tool {name}")
    if (
        len(description) > MAX_OPENAI_CHARACTERS
        and len(description.encode("utf-8", "replace")) <= MAX_UNCUT_BYTES
    ):
        length = f"the description has {len(description)} characters"
        message = f"{length}; OpenAI's API takes {MAX_OPENAI_CHARACTERS}"
        yield Finding(Level.NOTE, message, source, f"tool {name}")


def _tool_name(name: str, server: str) -> Iterator[str]:
    if not API_NAME.fullmatch(name):
        yield "model APIs take a name of letters, digits, '_' and '-' only, at most 64"
    elif len(full_name := f"mcp__{server}__{name}") > MAX_API_NAME_LENGTH:
        length = len(full_name)
        yield f"Claude Code calls it {full_name}: {length} characters, model APIs take {MAX_API_NAME_LENGTH}"


def _description(description: str) -> Iterator[str]:
    size = len(description.encode("utf-8", "replace"))
    if not description.strip():
        yield "has no description, which models need to choose it"
    elif size > MAX_UNCUT_BYTES:
        yield f"the description has {size} bytes; Claude Code cuts it at {MAX_UNCUT_BYTES}"


def _prompt(prompt: Prompt) -> Iterator[Finding]:
    undescribed = [argument.name for argument in prompt.arguments if not argument.description]
    return _prompt_findings(prompt.name, prompt.description, undescribed, prompt.source)


def _prompt_findings(
    name: str, description: str, undescribed: list[str], source: str = ""
) -> Iterator[Finding]:
    subject = f"prompt {name}"
    if not description.strip():
        yield Finding(Level.WARNING, "has no description", source, subject)
    if undescribed:
        message = f"argument{'s' * (len(undescribed) > 1)} without a description: {', '.join(undescribed)}"
        yield Finding(Level.WARNING, message, source, subject)


def _template(template: ResourceTemplate) -> Iterator[Finding]:
    if not template.description.strip():
        yield Finding(
            Level.WARNING, "has no description", template.source, f"template {template.uri_template}"
        )


def _resources(server: Server) -> Iterator[Finding]:
    for resource in server.resources:
        if (resource.size or 0) > LARGE_RESOURCE_BYTES:
            message = f"has {(resource.size or 0) / LARGE_RESOURCE_BYTES:.1f} MiB, which clients read at once"
            yield Finding(Level.NOTE, message, resource.source, f"resource {resource.uri}")


def lint_offers(
    server: str, instructions: str, offers: Sequence[Offer], problems: Sequence[str]
) -> list[Finding]:
    """Return all findings about an upstream server, errors first.

    `problems` are errors that concern complete lists and not particular items.
    """
    findings = [
        *(from_text(Level.ERROR, text) for text in problems),
        *_size_findings(instructions, sum(offer.kind == "tool" for offer in offers)),
        *(finding for offer in offers for finding in _offer(server, offer)),
        *(
            finding
            for offer in offers
            for finding in _hidden_text_findings(
                offer.definition, f"{offer.kind} {clean(offer.name, newlines=False)}"
            )
        ),
        *_hidden_text_findings({"instructions": instructions}, "server"),
    ]
    if not offers:
        findings.append(Finding(Level.WARNING, "no items"))
    return sorted(findings, key=lambda each: list(Level).index(each.level))


def _offer(server: str, offer: Offer) -> Iterator[Finding]:
    """Yield findings about one item that an upstream server lists."""
    subject, definition = f"{offer.kind} {offer.name}", offer.definition
    for fault in _definition_faults(offer):
        yield Finding(Level.ERROR, fault, subject=subject)
    if offer.kind == "tool":
        _, usable_schema = schema_faults(definition["inputSchema"])
        yield from _tool_findings(offer.name, offer.description, usable_schema, server)
    elif offer.kind == "prompt":
        arguments = [each for each in definition.get("arguments") or () if isinstance(each, dict)]
        undescribed = [str(each.get("name")) for each in arguments if not each.get("description")]
        yield from _prompt_findings(offer.name, offer.description, undescribed)
    elif offer.kind == "template" and not offer.description.strip():
        yield Finding(Level.WARNING, "has no description", subject=subject)


def _definition_faults(offer: Offer) -> Iterator[str]:
    """Yield each violation of the protocol in a definition."""
    definition = offer.definition
    for key in ("inputSchema", "outputSchema"):
        if key in definition:
            yield from (f"{key}: {fault}" for fault in schema_faults(definition[key])[0])
    annotations = definition.get("annotations") or {}
    parts = (
        [{name: annotations[name]} for name in annotations]
        if isinstance(annotations, Mapping)
        else [annotations]
    )
    check = check_hints if offer.kind == "tool" and isinstance(annotations, Mapping) else check_annotations
    yield from (fault for part in parts for fault in _faults_of(check, part))
    yield from _faults_of(mirrored_arguments, definition.get("inputSchema") or {})
    for name, member_type, type_text in (
        ("icons", list, "a list"),
        ("_meta", dict, "an object"),
        ("execution", dict, "an object"),
    ):
        if not isinstance(definition.get(name, member_type()), member_type):
            yield f"{name} must be {type_text}"
    if offer.kind == "template":
        template_faults = _faults_of(parsed_template, offer.name)
        yield from (fault for fault in template_faults if not _OWN_PATTERN_RULES.search(fault))
    if offer.kind == "resource" and not _SCHEME.match(offer.name):
        yield "its URI has no scheme"
    arguments = definition.get("arguments")
    if offer.kind == "prompt" and arguments is not None:
        argument_list = arguments if isinstance(arguments, list) else [None]
        if not all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in argument_list):
            yield "arguments must be a list of objects with a name"


_OWN_PATTERN_RULES = re.compile("uses a modifier|names a variable twice")
"""Faults of templates that RFC 6570 allows, but mcpdesk cannot match."""


def _faults_of(check: Callable[[Any], object], value: Any) -> Iterator[str]:
    try:
        check(value)
    except ValueError as error:
        yield str(error)


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
PROPERTY_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""Parameter names that model APIs accept."""
ALTERNATIVES = ("anyOf", "oneOf", "allOf")
RESTRICTING_KEYWORDS = frozenset({"type", "enum", "const", "$ref", "not", "if", *ALTERNATIVES})
"""Schema keywords that restrict the value of a parameter."""
MAX_PARAMETER_DEPTH = 6
"""Maximum depth of nested parameters that are checked."""
MAX_NAMED_PARAMETERS = 8
"""Maximum number of parameters named in one message."""


def parameter_problems(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield problems of an input schema that confuse models, or that make clients reject the tool."""
    parameters = dict(_parameters(schema))
    yield from _parameter_remarks(
        "without a description", [name for name, part in parameters.items() if not _has_description(part)]
    )
    yield from _parameter_remarks(
        "without a type", [name for name, part in parameters.items() if not _restricts_value(part)]
    )
    bad_names = [
        name for name in parameters if not PROPERTY_NAME.fullmatch(name.rpartition(".")[2].removesuffix("[]"))
    ]
    yield from _parameter_remarks("with a name that model APIs reject", bad_names)
    for key in ALTERNATIVES:
        if key in schema:
            yield f"{key} is at the top of the input schema, where model APIs reject it"
    yield from _required_problems(schema)
    yield from _default_problems(parameters, schema)


def _parameters(
    schema: Any, parent_path: str = "", depth: int = 0
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every property with its path, such as `filters.sort` or `items[].name`."""
    if not isinstance(schema, Mapping) or depth > MAX_PARAMETER_DEPTH:
        return
    properties = schema.get("properties")
    for name, part in properties.items() if isinstance(properties, Mapping) else ():
        path = f"{parent_path}.{name}" if parent_path else str(name)
        yield path, part if isinstance(part, Mapping) else {"not": {}} if part is False else {}
        yield from _parameters(part, path, depth + 1)
    yield from _parameters(schema.get("items"), f"{parent_path}[]", depth + 1)


def _has_description(part: Mapping[str, Any]) -> bool:
    """Return True if a parameter has a description. A `$ref` counts, because its target may have one."""
    return bool(part.get("description") or part.get("title")) or "$ref" in part or "const" in part


def _restricts_value(part: Mapping[str, Any]) -> bool:
    """Return True if a schema restricts the value of a parameter."""
    return bool(RESTRICTING_KEYWORDS & part.keys())


def _parameter_remarks(problem: str, names: list[str]) -> Iterator[str]:
    """Yield one message about these parameters. `problem` is their problem, such as `without a type`."""
    if names:
        more = f" and {len(names) - MAX_NAMED_PARAMETERS} more" if len(names) > MAX_NAMED_PARAMETERS else ""
        yield f"parameter{'s' * (len(names) > 1)} {problem}: {', '.join(names[:MAX_NAMED_PARAMETERS])}{more}"


def _required_problems(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield problems of required parameters that no call can have."""
    properties = schema.get("properties") or {}
    if schema.get("additionalProperties") is False:
        for name in schema.get("required") or ():
            if name not in properties:
                yield f"{name!r} is required, but is not a property: no call can be valid"


def _default_problems(
    parameters: Mapping[str, Mapping[str, Any]], schema: Mapping[str, Any]
) -> Iterator[str]:
    """Yield problems of defaults and examples that their own schema rejects."""
    root_members = {key: schema[key] for key in ("$defs", "definitions", "$schema") if key in schema}
    for name, part in parameters.items():
        examples = part.get("examples", [])
        values = [("default", part["default"])] if "default" in part else []
        values += [("example", each) for each in (examples if isinstance(examples, list) else [examples])]
        for noun, value in values:
            if not _is_valid_for(value, root_members | dict(part)):
                yield f"the {noun} {value!r:.80} of {name} does not fit its schema"


def _is_valid_for(value: Any, part: dict[str, Any]) -> bool:
    try:
        return compile_schema(part).accepts(value)
    except SchemaError:
        return True  # another check reports this error
