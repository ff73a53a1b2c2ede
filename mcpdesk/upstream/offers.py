"""Lists of items (tools, resources and so on) that an upstream server offers, and errors in these lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from mcpdesk.client.connection import ServerConnection
from mcpdesk.client.transport import excerpt, value_excerpt
from mcpdesk.errors import InvalidAnswer, RpcError
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject


class OfferList(NamedTuple):
    """Description of one kind of list."""

    kind: str
    """`tool`, `resource`, `template`, `prompt` or `skill`."""
    method: str
    key: str
    """Member of the result that contains the items."""
    name_key: str
    """Member of an item that identifies it."""
    capability: str
    is_optional: bool = False
    """True if a server may lack the method although it declares the capability."""


OFFER_LISTS = (
    OfferList("tool", "tools/list", "tools", "name", "tools"),
    OfferList("resource", "resources/list", "resources", "uri", "resources"),
    OfferList(
        "template",
        "resources/templates/list",
        "resourceTemplates",
        "uriTemplate",
        "resources",
        is_optional=True,
    ),
    OfferList("prompt", "prompts/list", "prompts", "name", "prompts"),
)
SKILL_LIST = OfferList("skill", "skills/list", "skills", "uri", "extensions", True)
"""Servers declare skills as an extension. The connection checks that the server declares this extension."""


class Offer(Struct, frozen=True):
    """One item of a list."""

    kind: str
    name: str
    title: str
    description: str = ""
    definition: JSONObject = {}
    """Definition as the server sent it."""


async def read_offers(
    connection: ServerConnection, capabilities: Mapping[str, Any], *, asks_all: bool = False
) -> tuple[tuple[Offer, ...], tuple[str, ...]]:
    """Read the lists that a server declares. Return the items, and a sentence about each invalid list.

    If the server declares no list, or if `asks_all` is true, request all lists. Raises: CallError if the
    connection is lost.
    """
    offers: list[Offer] = []
    problems = [
        f"initialize: the capability {name!r} is {value_excerpt(capabilities[name])}; it must be an object"
        for name in sorted({each.capability for each in OFFER_LISTS} & capabilities.keys())
        if not isinstance(capabilities[name], dict)
    ]
    asks_all = asks_all or not any(each.capability in capabilities for each in OFFER_LISTS)
    for each in (*OFFER_LISTS, SKILL_LIST):
        is_declared = each.capability in capabilities
        if not is_declared and (each is SKILL_LIST or not asks_all):
            continue
        faults: list[str] = []
        try:
            if each is SKILL_LIST:
                items = await connection.skills.listed(faults)
            else:
                items = await connection.list_all(each.method, each.key, faults)
        except RpcError as error:
            if is_declared and (error.code != ErrorCode.METHOD_NOT_FOUND or not each.is_optional):
                declared = f"; the server declares the capability {each.capability!r}"
                problems.append(f"{each.method}: {error.message} ({error.code}){declared}")
            continue
        except InvalidAnswer as error:
            if is_declared:
                problems.append(error.message)
            continue
        if items and not is_declared:
            missing = f"the server does not declare the capability {each.capability!r}"
            problems.append(f"{each.method}: {missing}, so most clients do not ask for this list")
        problems += [f"{each.method}: {fault}" for fault in faults]
        offers += _offers(each, items, problems)
    return tuple(offers), tuple(problems)


def _offers(offer_list: OfferList, items: list[JSONObject], problems: list[str]) -> Iterator[Offer]:
    """Yield the items of a list. If several items have the same name, the first one counts."""
    names = set[str]()
    for item in items:
        name = str(item[offer_list.name_key])
        if name in names:
            problems.append(f"{offer_list.method}: {excerpt(name)!r} is listed more than once")
            continue
        names.add(name)
        annotations = item.get("annotations")
        annotation_title = annotations.get("title") if isinstance(annotations, dict) else None
        front_matter = item.get("frontmatter", item)
        title = next(
            (each for each in (item.get("title"), annotation_title, front_matter.get("name")) if each), name
        )
        yield Offer(offer_list.kind, name, str(title), front_matter.get("description") or "", item)
