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
    declared_names = {offer_list.capability for offer_list in OFFER_LISTS} & capabilities.keys()
    problems = [
        f"initialize: the capability {name!r} is {value_excerpt(capabilities[name])}; it must be an object"
        for name in sorted(declared_names)
        if not isinstance(capabilities[name], dict)
    ]
    asks_all = asks_all or not declared_names
    for offer_list in (*OFFER_LISTS, SKILL_LIST):
        method, capability = offer_list.method, offer_list.capability
        is_declared = capability in capabilities
        if not is_declared and (offer_list is SKILL_LIST or not asks_all):
            continue
        faults: list[str] = []
        try:
            if offer_list is SKILL_LIST:
                items = await connection.skills.listed(faults)
            else:
                items = await connection.list_all(method, offer_list.key, faults)
        except RpcError as error:
            if is_declared and (error.code != ErrorCode.METHOD_NOT_FOUND or not offer_list.is_optional):
                reason = f"{error.message} ({error.code})"
                problems.append(f"{method}: {reason}; the server declares the capability {capability!r}")
            continue
        except InvalidAnswer as error:
            if is_declared:
                problems.append(error.message)
            continue
        if items and not is_declared:
            reason = f"the server does not declare the capability {capability!r}"
            problems.append(f"{method}: {reason}, so most clients do not ask for this list")
        problems += [f"{method}: {fault}" for fault in faults]
        offers += _offers(offer_list, items, problems)
    return tuple(offers), tuple(problems)


def _offers(offer_list: OfferList, items: list[JSONObject], problems: list[str]) -> Iterator[Offer]:
    """Yield the items of a list. If several items have the same name, yield the first, and add a problem."""
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
        title = item.get("title") or annotation_title or front_matter.get("name") or name
        yield Offer(offer_list.kind, name, str(title), front_matter.get("description") or "", item)
