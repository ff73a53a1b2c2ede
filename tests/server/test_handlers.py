"""Requests that run hosted code or take their time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mcpdesk.hosting.folder.module_items import choice_completer, completers
from mcpdesk.protocol.revisions import REVISIONS
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.prompts import Prompt, PromptArgument
from mcpdesk.server.offer.resources import Resource, ResourceTemplate
from tests.support.served import Peer, make_server


@pytest.mark.parametrize("uris", [True, 5, "note://1", {"a": 1}, [1], [["note://1"]]])
async def test_subscriptions_that_are_no_list_of_uris_are_refused(uris: object) -> None:
    peer = Peer()
    peer.modern(1, "subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
    error = (await peer.response(1))["error"]
    assert error["code"] == -32602 and "resourceSubscriptions" in error["message"]


@pytest.mark.requirement("6.5")
@pytest.mark.parametrize(("revision", "code"), [("2025-11-25", -32002), ("2026-07-28", -32602)])
async def test_a_reader_that_finds_nothing_returns_nothing(revision: str, code: int) -> None:
    async def read(uri: str, variables: dict[str, str], context: Context) -> Any:
        return [] if variables["id"] == "empty" else None

    peer = Peer()
    peer.server.templates.replace([ResourceTemplate("item://{id}", "item", read)])
    send: Callable[..., None] = peer.modern
    if revision != "2026-07-28":
        await peer.shake_hands(revision)
        send = peer.request
    send(1, "resources/read", {"uri": "item://7"})
    error = (await peer.response(1))["error"]
    assert (error["code"], error["data"]) == (code, {"uri": "item://7"})
    send(2, "resources/read", {"uri": "item://empty"})
    assert (await peer.response(2))["result"]["contents"][0]["text"] == "[]"


class Tide(msgspec.Struct):
    """A result of a resource as a Struct."""

    height: float
    source: Path


@dataclass
class Berth:
    """The same result as a dataclass."""

    height: float
    source: Path


class Model:
    """A model with the method of pydantic models."""

    def model_dump(self, mode: str) -> dict[str, object]:
        return {"height": 2.5, "source": "tides.csv"}


@pytest.mark.requirement("6.5")
@pytest.mark.parametrize("value", [Tide(2.5, Path("tides.csv")), Berth(2.5, Path("tides.csv")), Model()])
async def test_a_resource_may_return_what_a_tool_may_return(value: object) -> None:
    async def read(uri: str, variables: dict[str, str], context: Context) -> Any:
        return {"first": value, 2: [value]} if uri == "item://nested" else value

    peer = Peer()
    peer.server.templates.replace([ResourceTemplate("item://{id}", "item", read)])
    plain = {"height": 2.5, "source": "tides.csv"}
    for number, (uri, expected) in enumerate(
        {"item://one": plain, "item://nested": {"first": plain, "2": [plain]}}.items()
    ):
        peer.modern(number, "resources/read", {"uri": uri})
        (entry,) = (await peer.response(number))["result"]["contents"]
        assert entry["mimeType"] == "application/json" and json.loads(entry["text"]) == expected


@pytest.mark.requirement("6.5")
@pytest.mark.parametrize("output", [b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff")])
async def test_bytes_of_every_type_are_a_blob(output: bytes | bytearray | memoryview) -> None:
    async def read(uri: str, variables: dict[str, str], context: Context) -> Any:
        return output

    peer = Peer()
    peer.server.resources.replace([Resource("item://one", "one", read)])
    peer.modern(1, "resources/read", {"uri": "item://one"})
    assert (await peer.response(1))["result"]["contents"] == [{"uri": "item://one", "blob": "AP8="}]


@pytest.mark.requirement("6.5")
@pytest.mark.parametrize("output", [object(), {1: object()}])
async def test_a_value_that_is_not_json_is_an_error_with_the_uri(output: object) -> None:
    async def read(uri: str, variables: dict[str, str], context: Context) -> Any:
        return output

    peer = Peer()
    peer.server.resources.replace([Resource("item://one", "one", read)])
    peer.modern(1, "resources/read", {"uri": "item://one"})
    error = (await peer.response(1))["error"]
    assert error["code"] == -32603
    assert error["message"] == (
        "Reading item://one returned something that is not JSON: object has no JSON form"
    )


async def read_file(uri: str, variables: dict[str, str], context: Context) -> str:
    return f"read {uri}"


def filed(folder: Path) -> Peer:
    """A server with a resource of a file whose name contains a space."""
    peer = Peer()
    peer.server.folder = folder
    resource = Resource(uri="resource://tide", name="tide", reader=read_file, path="resources/tide table.md")
    peer.server.resources.replace([resource])
    return peer


@pytest.mark.parametrize(
    "uri",
    [
        "resource://tide",
        "resources/tide table.md",
        "./resources/tide table.md",
        "./resources/tide%20table.md",
        "prompts/.././resources//tide table.md",
        "{folder}/resources/tide table.md",
        "{folder}/../{name}/resources/tide table.md",
        "file://{folder}/resources/tide%20table.md",
        "FILE://localhost{folder}/resources/tide table.md",
    ],
)
async def test_a_resource_is_read_by_the_path_of_its_file(tmp_path: Path, uri: str) -> None:
    peer = filed(tmp_path)
    peer.modern(1, "resources/read", {"uri": uri.format(folder=tmp_path, name=tmp_path.name)})
    (entry,) = (await peer.response(1))["result"]["contents"]
    assert (entry["uri"], entry["text"]) == ("resource://tide", "read resource://tide")


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "uri",
    [
        "mcp.json",
        "./mcp.json",
        "{folder}/mcp.json",
        "file://{folder}/mcp.json",
        "resources/tide table.md/",
        "{folder}/resources/tide table.md/.",
        "../server/resources/tide table.md",
        "/resources/tide table.md",
        "{other}/resources/tide table.md",
        "file://{folder}/resources/..%2Fresources%2F..%2F..%2Fsecret.md",
        "file://elsewhere{folder}/resources/tide%20table.md",
        "file://{folder}/resources/tide%2520table.md",
        "file://[/resources/tide table.md",
        "file:resources/tide table.md?x",
        "{folder}/resources/out/secret.md",
        "{folder}/resources/tide table.md\0",
        "{link}/resources/tide table.md",
        "\0/resources/tide table.md",
        "/\0/resources/tide table.md",
        "",
    ],
)
async def test_no_path_leads_to_a_file_that_is_no_resource(tmp_path: Path, uri: str) -> None:
    folder, other = tmp_path / "server", tmp_path / "other"
    for place in (folder / "resources", other / "resources"):
        place.mkdir(parents=True)
        (place / "tide table.md").write_text("x")
    (folder / "mcp.json").write_text("{}")
    (other / "secret.md").write_text("secret")
    (folder / "resources" / "out").symlink_to(other)
    (tmp_path / "link").symlink_to(folder)
    peer = filed(folder)
    named = uri.format(folder=folder, other=other, link=tmp_path / "link")
    peer.modern(1, "resources/read", {"uri": named})
    assert (await peer.response(1))["error"]["code"] == -32602


@pytest.mark.parametrize(("revision", "code"), [("2024-11-05", -32002), ("2025-11-25", -32002)])
async def test_a_subscription_to_an_unknown_resource_is_an_error(
    tmp_path: Path, revision: str, code: int
) -> None:
    peer = filed(tmp_path)
    await peer.shake_hands(revision)
    for number, uri in enumerate(("resource://nothing", "", "./resources/tide table.md"), 1):
        peer.request(number, "resources/subscribe", {"uri": uri})
    refused, empty, taken = [await peer.response(number) for number in (1, 2, 3)]
    assert (refused["error"]["code"], refused["error"]["data"]) == (code, {"uri": "resource://nothing"})
    assert "error" in empty and taken["result"] == {}
    subscriptions = peer.channel.dialogue.conversation.session.subscriptions
    assert subscriptions == {"resource://tide"}
    peer.request(4, "resources/unsubscribe", {"uri": "./resources/tide table.md"})
    assert (await peer.response(4))["result"] == {} and not subscriptions


@pytest.mark.parametrize("named", ["./resources/tide%20table.md", "{folder}/resources/tide table.md"])
async def test_a_subscription_to_a_removed_resource_ends_by_its_path(tmp_path: Path, named: str) -> None:
    peer = filed(tmp_path)
    await peer.shake_hands()
    peer.request(1, "resources/subscribe", {"uri": "resources/tide table.md"})
    await peer.response(1)
    subscriptions = peer.channel.dialogue.conversation.session.subscriptions
    assert subscriptions == {"resource://tide"}
    peer.server.resources.replace([])
    peer.request(2, "resources/unsubscribe", {"uri": "resources/other.md"})
    assert (await peer.response(2))["result"] == {} and subscriptions == {"resource://tide"}
    peer.request(3, "resources/unsubscribe", {"uri": named.format(folder=tmp_path)})
    assert (await peer.response(3))["result"] == {} and not subscriptions


async def test_a_stream_acknowledges_the_resources_that_exist_and_none_else(tmp_path: Path) -> None:
    peer = filed(tmp_path)
    both = {"resourceSubscriptions": ["resource://nothing", "./resources/tide table.md"]}
    peer.modern("L", "subscriptions/listen", {"notifications": both})
    await peer.message(lambda message: message.get("method") == "notifications/subscriptions/acknowledged")
    told = peer.received[-1]["params"]["notifications"]
    assert told == {"resourceSubscriptions": ["resource://tide"]}
    peer.modern(1, "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["resource://no"]}})
    assert (await peer.response(1))["error"]["code"] == -32602
    peer.channel.close()


async def test_contents_that_clients_refuse_are_an_error_that_names_the_entry() -> None:
    async def read(uri: str, variables: dict[str, str], context: Context) -> Any:
        return [{"uri": uri, "text": "fine"}, {"uri": uri, "blob": b"bytes"}]

    peer = Peer()
    peer.server.templates.replace([ResourceTemplate("item://{id}", "item", read)])
    peer.modern(1, "resources/read", {"uri": "item://7"})
    error = (await peer.response(1))["error"]
    told = "Reading item://7 returned invalid contents: entry 2: blob must be a text, not b'bytes'"
    assert (error["code"], error["message"]) == (-32603, told)


CITIES = {"fr": ["Paris", "Pau"], "de": ["Bonn"]}


async def _none(*_: Any) -> str:
    return ""


async def _city(typed: str, given: dict[str, str], context: Context) -> list[str]:
    return [each for each in CITIES.get(given.get("country", "fr"), []) if each.startswith(typed)]


async def _numbers(typed: str, given: dict[str, str], context: Context) -> Iterator[str]:
    return (str(each) for each in count())


async def _many(typed: str, given: dict[str, str], context: Context) -> list[str]:
    return [str(each) for each in range(250)]


async def _broken(typed: str, given: dict[str, str], context: Context) -> list[str]:
    raise ValueError("no index")


def _peer() -> Peer:
    server = make_server()
    names = ("country", "city", "number", "many", "broken", "free")
    suggest = {"city": _city, "number": _numbers, "many": _many, "broken": _broken}
    server.prompts.replace(
        [
            Prompt(
                "travel",
                _none,
                arguments=tuple(map(PromptArgument, names)),
                completers=suggest | {"country": choice_completer(["de", "fr"])},
            )
        ]
    )
    server.templates.replace(
        [ResourceTemplate("item://{id}", "item", _none, completers={"id": choice_completer(["one", "two"])})]
    )
    return Peer(server)


def asked(argument: str, typed: str = "", **given: str) -> dict[str, Any]:
    params: dict[str, Any] = {
        "ref": {"type": "ref/prompt", "name": "travel"},
        "argument": {"name": argument, "value": typed},
    }
    return params | {"context": {"arguments": given}} if given else params


async def completed(peer: Peer, params: dict[str, Any]) -> dict[str, Any]:
    peer.modern(1, "completion/complete", params)
    found: dict[str, Any] = (await peer.response(1))["result"]["completion"]
    return found


async def test_fixed_choices_are_filtered_by_what_was_typed() -> None:
    assert await completed(_peer(), asked("country", "F")) == {"values": ["fr"], "total": 1, "hasMore": False}


async def test_an_argument_without_suggestions_has_none() -> None:
    assert await completed(_peer(), asked("free", "x")) == {"values": [], "total": 0, "hasMore": False}


async def test_arguments_given_before_narrow_the_suggestions() -> None:
    assert (await completed(_peer(), asked("city", "", country="de")))["values"] == ["Bonn"]


@pytest.mark.requirement("6.2")
async def test_at_most_a_hundred_values_and_how_many_there_are() -> None:
    found = await completed(_peer(), asked("many"))
    assert (len(found["values"]), found["total"], found["hasMore"]) == (100, 250, True)


async def test_endless_suggestions_end_without_a_total() -> None:
    found = await completed(_peer(), asked("number"))
    assert (len(found["values"]), found["hasMore"], "total" in found) == (100, True, False)


@pytest.mark.parametrize("uri", ["item://{id}", "item://7"])
async def test_a_template_is_named_by_itself_or_by_a_uri_it_makes(uri: str) -> None:
    params = {"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "id", "value": "tw"}}
    assert (await completed(_peer(), params))["values"] == ["two"]


@pytest.mark.parametrize(
    "change",
    [
        {"ref": {"type": "ref/prompt", "name": "nope"}},
        {"ref": {"type": "ref/prompt"}},
        {"ref": {"type": "ref/tool", "name": "echo"}},
        {"ref": {"type": "ref/resource", "uri": "other://7"}},
        {"ref": {"type": "ref/resource", "uri": "resource://note"}},
        {"ref": {"type": ["ref/prompt"], "name": "travel"}},
        {"ref": "travel"},
        {"argument": {"name": "nope", "value": ""}},
        {"argument": {"name": "city"}},
        {"argument": {"name": 1, "value": ""}},
        {"argument": []},
        {"context": 5},
        {"context": {"arguments": {"country": 5}}},
        {"context": {"arguments": ["de"]}},
    ],
)
async def test_what_is_unknown_or_misshapen_is_invalid_params(change: dict[str, Any]) -> None:
    peer = _peer()
    peer.modern(1, "completion/complete", asked("city") | change)
    assert (await peer.response(1))["error"]["code"] == -32602


async def test_a_failing_function_is_an_internal_error_and_logged() -> None:
    peer = _peer()
    peer.modern(1, "completion/complete", asked("broken"))
    assert (await peer.response(1))["error"]["code"] == -32603
    assert "no index" in peer.logged[0][2]


@pytest.mark.parametrize("revision", [each.name for each in REVISIONS[:4]])
async def test_the_capability_is_advertised_where_the_revision_has_it(revision: str) -> None:
    offered = (await _peer().shake_hands(revision))["result"]["capabilities"]
    assert ("completions" in offered) is (revision != "2024-11-05")


@pytest.mark.requirement("1.12")
async def test_nothing_is_advertised_or_answered_where_nothing_completes() -> None:
    peer = Peer()
    assert "completions" not in (await peer.shake_hands())["result"]["capabilities"]
    peer.request(1, "completion/complete", asked("city"))
    assert (await peer.response(1))["error"]["code"] == -32601


async def test_the_first_revision_may_ask_unannounced() -> None:
    peer = _peer()
    await peer.shake_hands("2024-11-05")
    peer.request(1, "completion/complete", asked("country", "d"))
    assert (await peer.response(1))["result"]["completion"]["values"] == ["de"]


async def test_a_completer_made_of_a_function_gets_value_arguments_and_context() -> None:
    made = completers({"x": lambda value, given, ctx: [value, given["y"], ctx.tool]}, ["x"], "f.py:1")
    server = make_server()
    server.prompts.replace([Prompt("p", _none, arguments=(PromptArgument("x"),), completers=made)])
    params = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "x", "value": "v"}}
    found = await completed(Peer(server), params | {"context": {"arguments": {"y": "w"}}})
    assert found["values"] == ["v", "w", "p"]
