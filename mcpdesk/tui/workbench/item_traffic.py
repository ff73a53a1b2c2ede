"""Traffic on the workbench: a strip of all messages, or a column with the requests for the open item."""

from __future__ import annotations

from collections.abc import Callable

from mcpdesk.link.values import CatalogueItem, ItemKind
from mcpdesk.protocol.catalogue.uri_template import match
from mcpdesk.recorder.index.query import EVERYTHING, About, Node
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.tui.traffic.traffic_list import TrafficList

_NO_MESSAGES_WITH_KEYS = "  No messages yet. ctrl+r calls; space lists all actions."
_NO_MESSAGES = "  No messages yet."
_REQUESTS = {
    ItemKind.TOOL: ("tools/call", "  No calls of this tool yet."),
    ItemKind.PROMPT: ("prompts/get", "  No requests for this prompt yet."),
}
"""Kind of item -> method of the requests for it, and the text of a list without such requests."""
_READ_REQUESTS = ("resources/read", "  No reads of this resource yet.")
"""Method of the requests for any other item, and the text of a list without such requests."""


class ItemTraffic(TrafficList):
    """List without column titles, of all messages or of the requests for one item."""

    def __init__(self, index: Index) -> None:
        super().__init__(index, compact=True)
        self._shown_item: tuple[str, ItemKind, str] | None = None
        """Server, kind and name of the item whose requests are shown, or None if all messages are shown."""
        self._show_empty(_NO_MESSAGES)

    def show_item(self, server: str, item: CatalogueItem | None, *, may_call: bool) -> None:
        """Show only the requests for an item of a server, or all messages if the item is None.

        `may_call` is True if an item is open, so that an empty list may name the key that calls it.
        """
        new_item = None if item is None else (server, item.kind, item.name)
        if item is None:
            self._show_empty(_NO_MESSAGES_WITH_KEYS if may_call else _NO_MESSAGES)
        if new_item == self._shown_item:
            return
        self._shown_item = new_item
        self._strips.has_single_item = item is not None
        if item is not None:
            self._show_empty(_REQUESTS.get(item.kind, _READ_REQUESTS)[1])
        self.filter(EVERYTHING if item is None else requests_for(server, item), is_typed=True)

    def _show_empty(self, text: str) -> None:
        """Set the text of the list without messages."""
        if self.empty_text != [(text, "traffic--muted")]:
            self.empty_text = [(text, "traffic--muted")]
            self.refresh()


def requests_for(server: str, item: CatalogueItem) -> Node:
    """Return a filter for the requests for an item. For a template, these are reads of matching URIs."""
    method, _ = _REQUESTS.get(item.kind, _READ_REQUESTS)
    return About(server, method, _name_filter(item))


def _name_filter(item: CatalogueItem) -> Callable[[str], bool]:
    """Return a function that returns True for the name or URI of a request for this item."""
    if item.kind is ItemKind.TEMPLATE:
        return lambda uri: _matches(item.name, uri)
    return lambda name: name == item.name


def _matches(template: str, uri: str) -> bool:
    try:
        return match(template, uri) is not None
    except ValueError:  # the server lists an invalid template
        return False
