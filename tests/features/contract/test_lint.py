"""Lint messages about a folder, as clients and models see it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from mcpdesk.features.contract.lint import lint, lint_offers, parameter_problems
from mcpdesk.hosting.folder.manifest import read_manifest
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.host_plan import HostPlan
from mcpdesk.protocol.catalogue.annotations import HINTS
from mcpdesk.settings import resolve
from mcpdesk.upstream.offers import Offer
from tests.support.folders import write

Look: TypeAlias = Callable[..., list[str]]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """Return a function: messages about a folder with these files, one a line."""

    def looked(files: dict[str, str] | None = None, name: str = "small", **manifest: Any) -> list[str]:
        folder = write(
            tmp_path / "folder", {"mcp.json": json.dumps({"name": name, **manifest}), **(files or {})}
        )
        host = Host(
            HostPlan((folder,), resolve({}, {}).settings, http=False, accepts_pumps=False, watch=False)
        )
        host.load()
        [hosted] = host.folders.values()
        found = lint(hosted.server, read_manifest(folder), hosted.warnings, {"THERE": "x"})
        return [str(each) for each in found]

    return looked


def tool(description: str = "Do.", name: str = "act", decorator: str = "") -> dict[str, str]:
    head = f"from mcpdesk import tool\n\n{decorator}\nasync def {name}() -> str:\n"
    return {f"tools/{name}.py": f"{head}    {description!r}\n    return ''\n"}


def test_a_good_folder_hears_nothing(look: Look) -> None:
    assert look(tool()) == []


def test_a_built_in_tool_without_its_library_is_noted(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    assert look(tool(), builtins=["Bash", "ReadImage"]) == []
    monkeypatch.setitem(sys.modules, "PIL", None)
    [told] = look(tool(), builtins=["Bash", "ReadImage"])
    assert told.startswith("mcp.json:1: note: tool ReadImage: ReadImage needs pillow, which is not installed")


def test_a_folder_with_nothing_in_it_is_told_so(look: Look) -> None:
    [told] = look()
    assert told.startswith("warning: no items: no file in tools/")


@pytest.mark.parametrize(
    ("description", "told"),
    [
        ("", "tools/act.py:4: warning: tool act: has no description, which models need to choose it"),
        ("x" * 1024, ""),
        ("x" * 1025, "note: tool act: the description has 1025 characters; OpenAI's API takes 1024"),
        ("é" * 1025, "warning: tool act: the description has 2050 bytes; Claude Code cuts it at 2048"),
        ("x" * 2049, "warning: tool act: the description has 2049 bytes; Claude Code cuts it at 2048"),
    ],
)
def test_descriptions_have_their_length(look: Look, description: str, told: str) -> None:
    found = look(tool(description))
    assert len(found) == bool(told)
    assert all(told in line for line in found)


def test_names_fit_model_apis_also_behind_a_prefix(look: Look) -> None:
    [dotted] = look(tool(decorator='@tool(name="act.now")'))
    assert "tool act.now: model APIs take a name of letters, digits" in dotted
    assert look(tool(name="a" * 30), name="s" * 27) == look(tool(name="a" * 30), name="s" * 27)


@pytest.mark.parametrize(("length", "count"), [(57, 0), (58, 1)])
def test_a_name_behind_its_prefix_is_counted(look: Look, length: int, count: int) -> None:
    # mcp__ and __ make seven more.
    found = look(tool(name="t" * (length - 1)), name="s")
    assert len(found) == count and all(f"{length + 7} characters" in line for line in found)


def test_a_broken_item_comes_first_and_a_missing_variable_is_no_mistake(look: Look) -> None:
    found = look(
        {
            **tool(""),
            **tool("Go.", "gone", '@tool(requires_env="NOT_THERE")'),
            "tools/broken.py": "1 / 0\n",
            "context.py": "x = 1\n",
        },
        approvals={"nobody": "ask"},
    )
    assert [line.split(": ")[1] for line in found] == ["error", "error", "error", "warning", "note"]
    assert found[0].startswith(
        "context.py: error: defines no hook; write at least one of: "
        "`def create_context(request)`, `async def lifespan"
    )
    assert found[1].startswith("mcp.json:1: error: approvals.nobody: no tool")
    assert found[2].startswith("tools/broken.py:1: error: tool broken: ZeroDivisionError")
    assert found[4].endswith(
        "tool gone: is not offered: needs NOT_THERE, an environment variable that is not set"
    )


def test_prompts_templates_and_large_resources_are_looked_at(look: Look) -> None:
    found = look(
        {
            "prompts/bare.md": "Say {{what}}.",
            "prompts/good.md": "---\ndescription: S.\narguments: [{name: it, description: I.}]\n---\n{{it}}",
            "resources/things.py": 'from mcpdesk import resource\n\n\n@resource("thing://{name}")\n'
            "async def thing(name: str) -> str:\n    return name\n",
            "resources/large.txt": "x" * (3 << 20),
        }
    )
    assert found == [
        "prompts/bare.md:1: warning: prompt bare: has no description",
        "prompts/bare.md:1: warning: prompt bare: argument without a description: what",
        "resources/things.py:5: warning: template thing://{name}: has no description",
        "resources/large.txt:1: note: resource resource://large: has 3.0 MiB, which clients read at once",
    ]


def test_servers_with_much_to_say_or_offer_are_told(look: Look) -> None:
    many = {place: text for n in range(81) for place, text in tool(name=f"t{n}").items()}
    found = look(many, instructions="i" * 3000)
    assert found == [
        "mcp.json:1: warning: the instructions have 3000 bytes; Claude Code cuts them at 2048",
        "warning: 81 tools; Cursor takes 80 of all servers together. Use modes to offer fewer",
    ]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"secret_env": "THERE"}, ""),
        ({"secret_env": "ABSENT"}, "note: auth.jwt.secret_env: ABSENT is not set here"),
        ({"jwks_file": "keys.json"}, "warning: auth.jwt.jwks_file: file keys.json does not exist"),
    ],
)
def test_where_keys_for_tokens_come_from_is_looked_at(look: Look, source: dict[str, str], told: str) -> None:
    algorithm = "HS256" if "secret_env" in source else "RS256"
    auth = {"requires_jwt": True, "jwt": {"algorithms": [algorithm], "audience": "a", **source}}
    found = look(tool(), auth=auth)
    assert [told in line for line in found if "secret_env" in line or "jwks_file" in line] == [True] * bool(
        told
    )


def test_what_clients_over_stdio_do_not_get_is_noted(look: Look) -> None:
    jwt = {"algorithms": ["HS256"], "secret_env": "THERE", "audience": "a"}
    asking = tool(decorator="@tool(requires_jwt=True)")
    [told] = look(asking, auth={"requires_jwt": False, "jwt": jwt})
    assert told.startswith("tools/act.py:") and "note: tool act: needs a token: over stdio it is not" in told
    [told] = look(asking, auth={"requires_jwt": True, "jwt": jwt})
    assert "note: auth.requires_jwt: over stdio nothing is listed unless MCPDESK_TOKEN has" in told


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


TEXT = {"type": "string", "description": "A text."}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "object"}, []),
        (of(a=TEXT, b={"enum": [1, 2], "title": "One or two"}), []),
        (of(a={"type": "string"}), ["parameter without a description: a"]),
        (of(a={"type": "string"}, b={"type": "string"}), ["parameters without a description: a, b"]),
        (of(a={"description": "Whatever."}), ["parameter without a type: a"]),
        (of(a=True), ["parameter without a description: a", "parameter without a type: a"]),
        (
            of(a={"type": "array", "description": "Some.", "items": of(b={"type": "string"})}),
            ["parameter without a description: a[].b"],
        ),
        (of(a=TEXT | of(b={"type": "string"})), ["parameter without a description: a.b"]),
        (of(a={"$ref": "#/$defs/a"}) | {"$defs": {"a": TEXT}}, []),
        (of(**{"a b": TEXT}), ["parameter with a name that model APIs reject: a b"]),
        (of(**{"a" * 65: TEXT}), [f"parameter with a name that model APIs reject: {'a' * 65}"]),
        (
            {"type": "object", "anyOf": [{"required": ["a"]}]},
            ["anyOf is at the top of the input schema, where model APIs reject it"],
        ),
        (
            of(a=TEXT) | {"required": ["a", "b"], "additionalProperties": False},
            ["'b' is required, but is not a property: no call can be valid"],
        ),
        (of(a=TEXT) | {"required": ["b"]}, []),
        (of(a=TEXT | {"default": 5}), ["the default 5 of a does not fit its schema"]),
        (of(a=TEXT | {"default": "x", "examples": ["y"]}), []),
        (of(a=TEXT | {"examples": ["y", 7]}), ["the example 7 of a does not fit its schema"]),
        (
            of(a={"$ref": "#/$defs/a", "default": 5}) | {"$defs": {"a": TEXT}},
            ["the default 5 of a does not fit its schema"],
        ),
        (
            of(**{f"p{n}": {"type": "string"} for n in range(11)}),
            ["parameters without a description: p0, p1, p2, p3, p4, p5, p6, p7 and 3 more"],
        ),
    ],
)
def test_trouble_with_parameters_is_named(schema: dict[str, Any], told: list[str]) -> None:
    assert list(parameter_problems(schema)) == told


@pytest.mark.parametrize(
    "schema", [{"properties": 5}, {"properties": {"a": 7}}, {"items": [1]}, {"properties": {"a": False}}]
)
def test_what_is_no_schema_is_survived(schema: dict[str, Any]) -> None:
    list(parameter_problems(schema))


def test_a_schema_without_end_is_looked_at_so_far() -> None:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"again": schema}
    assert any("without a description: again" in told for told in parameter_problems(schema))


def test_malformed_definitions_of_another_server_are_errors() -> None:
    fine, odd = {"type": "object"}, {"type": "object", "properties": {"x": {"type": "strin"}}}
    twice = {name: {"type": "string", "description": name, "x-mcp-header": "A"} for name in "xy"}
    offers = [
        Offer("tool", "fine", "", "Do.", {"inputSchema": fine, "annotations": {"readOnlyHint": True}}),
        Offer("tool", "odd", "", "Do.", {"inputSchema": fine, "outputSchema": odd}),
        Offer("tool", "hinted", "", "Do.", {"inputSchema": fine, "annotations": {"readOnlyHint": "yes"}}),
        Offer("tool", "twice", "", "Do.", {"inputSchema": {"type": "object", "properties": twice}}),
        Offer("resource", "a://b", "", "", {"annotations": {"priority": 1}}),
        Offer("resource", "no scheme", "", "", {"annotations": {"priority": 7}}),
        Offer("tool", "shapes", "", "Do.", {"inputSchema": fine, "icons": "x", "_meta": 5, "execution": []}),
        Offer("tool", "hints", "", "Do.", {"inputSchema": fine, "annotations": dict.fromkeys(HINTS[:2], 1)}),
        Offer("tool", "words", "", "Do.", {"inputSchema": fine, "annotations": "x"}),
        Offer("template", "a://{", "", "A."),
        Offer("template", "a://{b}", "", " "),
        Offer("prompt", "fine", "", "Ask."),
        Offer("prompt", "named", "", "Ask.", {"arguments": [{"name": "x", "description": "X."}]}),
        Offer("prompt", "texts", "", "Ask.", {"arguments": "x"}),
        Offer("prompt", "nameless", "", "Ask.", {"arguments": [{"description": "X."}]}),
    ]
    told = [str(each) for each in lint_offers("far", "", offers, [])]
    shape = "arguments must be a list of objects with a name"
    assert [text.partition(" at ")[0] for text in told] == [
        "error: tool odd: outputSchema: not a valid JSON Schema",
        "error: tool hinted: annotations: readOnlyHint must be true or false, not 'yes'",
        "error: tool twice: x-mcp-header: two arguments are mirrored by the header mcp-param-a",
        "error: resource no scheme: annotations: priority must be a number from 0 to 1, not 7",
        "error: resource no scheme: its URI has no scheme",
        "error: tool shapes: icons must be a list",
        "error: tool shapes: _meta must be an object",
        "error: tool shapes: execution must be an object",
        *(f"error: tool hints: annotations: {hint} must be true or false, not 1" for hint in HINTS[:2]),
        "error: tool words: annotations must be an object, not 'x'",
        "error: template a://{: 'a://{' has an unmatched brace",
        f"error: prompt texts: {shape}",
        f"error: prompt nameless: {shape}",
        "warning: template a://{b}: has no description",
    ]
