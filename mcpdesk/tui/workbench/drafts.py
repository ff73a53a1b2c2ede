"""What the workbench keeps of each item: the arguments being edited, the running call, the last outcome.

Also which resources are watched.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from textual.app import App

from mcpdesk.link.link import Link, LinkCall
from mcpdesk.link.values import ArgumentFailure, CallOutcome, CatalogueItem, ItemKind
from mcpdesk.tui.forms.form_model import Node, ObjectNode, form_node, without_secrets
from mcpdesk.tui.forms.schema_fields import UNSET, FieldKind, Schema
from mcpdesk.tui.render.json_text import keeps, same
from mcpdesk.tui.workbench.item_requests import Ask, completion_for, request_for, schema_of
from mcpdesk.tui.workbench.past_calls import FILE_NAME, History, PastCall, SavedCalls

MOST_SEARCHED = 200
"""Newest exchanges that are searched for a call that has just ended."""
SEARCHED_FOR_S = 5.0
"""Seconds after the end of a call during which its exchange is searched."""
Key = tuple[str, ItemKind, str]
"""Server, kind and name of an item."""


@dataclass(slots=True, eq=False)
class Draft:
    """The state of one item. `arguments` are those of the last call, `shareable` the same without secrets."""

    item: CatalogueItem
    schema: Schema
    node: Node
    text: str | None = None
    """The arguments as JSON text, while they are edited that way."""
    arguments: Any = None
    shareable: Any = None
    call: LinkCall | None = None
    outcome: CallOutcome | None = None
    sent: tuple[int, int, float] | None = None
    """Connection, request id and start (Unix time) of the last call, until its recorded duration is known."""
    uri: str = ""
    """URI of the resource that was read last."""
    changes: int | None = None
    """How often the server has said that the watched resource changed; None: it is not watched."""
    changes_read: int | None = None
    """The changes after which it was read again; None until the server watches it."""
    is_reread: bool = False
    """Whether the running call reads a watched resource again, without a wish of the person."""
    has_no_suggestions: bool = False
    """Whether the server refused to suggest values: it is not asked again."""
    insisted: Any = UNSET
    """The arguments that the person was warned about: when called again, they are sent as they are."""

    def fill_form(self, arguments: Any) -> bool:
        """Put arguments into the form; False when the form cannot show all of them."""
        self.node.put(arguments)
        return keeps(self.node.value(), arguments)


class Drafts:
    """The state of all items. Several items may run at once, each with one call at a time."""

    def __init__(self, link: Link, history: History) -> None:
        self._link = link
        self._drafts: dict[Key, Draft] = {}
        self.history = history
        self.saved_calls = SavedCalls()

    def store_at(self, path: Path | None) -> None:
        """Store the history in this file and saved calls beside it; None keeps both in memory."""
        self.history = History(path)
        self.saved_calls = SavedCalls(None if path is None else path.with_name(FILE_NAME))

    def of(self, server: str, item: CatalogueItem) -> Draft:
        """The state of an item. When its schema has changed, what was entered is kept as far as it fits."""
        key = (server, item.kind, item.name)
        schema, draft = schema_of(item), self._drafts.get(key)
        if draft is None:
            draft = self._drafts[key] = Draft(item, schema, form_node(schema))
        elif draft.schema != schema:
            entered = draft.node.value()
            draft.schema, draft.node = schema, form_node(schema)
            draft.node.put(entered)
        draft.item = item
        return draft

    def failures(self, server: str, draft: Draft, arguments: Any) -> list[ArgumentFailure]:
        """Where the arguments do not fit: by the validator of the server for tools, else required names."""
        if draft.item.kind is ItemKind.TOOL:
            return self._link.validate(server, draft.item.name, arguments)
        given = arguments if isinstance(arguments, dict) else {}
        missing = [name for name in draft.schema.get("required", ()) if name not in given]
        return [ArgumentFailure((), f'"{name}" is a required property') for name in missing]

    def suggester(self, server: str, draft: Draft) -> Ask | None:
        """The function that asks the server for suggestions; None for items without any."""
        if completion_for(draft.item, "", "", {}) is None:
            return None

        async def ask(name: str, typed: str) -> Sequence[str]:
            request = completion_for(draft.item, name, typed, draft.node.value())
            if request is None or draft.has_no_suggestions:
                return ()
            call = self._link.request(server, *request)
            try:
                outcome = await asyncio.wrap_future(call.outcome)
            except asyncio.CancelledError:
                call.cancel()
                raise
            draft.has_no_suggestions = outcome.error is not None
            return _suggested(outcome.result)

        return ask

    def start(self, server: str, draft: Draft, arguments: Any) -> None:
        """Make the call.

        Raises: ValueError when the arguments make no request.
        """
        method, params = request_for(draft.item, arguments)
        draft.arguments, draft.outcome = arguments, None
        draft.shareable = _shareable(draft, arguments)
        if draft.changes is None:
            draft.uri = str(params.get("uri", "")) if method == "resources/read" else ""
        draft.call = self._link.request(server, method, params)

    def reread(self, server: str, draft: Draft) -> None:
        """Read a watched resource again, without an entry in the history."""
        if draft.call is None:
            draft.is_reread = True
            draft.call = self._link.request(server, "resources/read", {"uri": draft.uri})

    def finish_calls(self) -> list[Draft]:
        """Store the outcomes that have arrived; returns the drafts they belong to."""
        ended = []
        for (server, kind, name), draft in self._drafts.items():
            if draft.call is None or not draft.call.outcome.done():
                continue
            call = draft.call
            draft.outcome, draft.call = call.outcome.result(), None
            draft.sent = (call.connection, call.request_id, call.started)
            ended.append(draft)
            if draft.is_reread:
                draft.is_reread = False
                continue
            status, elapsed = _status(draft.outcome), draft.outcome.elapsed_s
            item = f"{kind.value} {name}"
            self.history.add(PastCall(time.time(), server, item, draft.shareable, status, elapsed))
        return ended

    def update_duration(self, draft: Draft) -> None:
        """Set the duration of the last outcome to the recorded one, as the traffic screen shows it."""
        if draft.sent is None or draft.outcome is None:
            return
        connection, identifier, started = draft.sent
        traffic = self._link.traffic
        for number in reversed(range(max(0, len(traffic.exchanges) - MOST_SEARCHED), len(traffic.exchanges))):
            found = traffic.exchange(number)
            if (found.connection, found.id) != (connection, identifier) or found.started < started - 1:
                continue
            whole = found if found.whole is None else traffic.exchange(found.whole)
            if whole.ended is not None:
                draft.outcome = replace(draft.outcome, elapsed_s=whole.elapsed(whole.ended))
                draft.sent = None
            return
        if time.time() - started - draft.outcome.elapsed_s > SEARCHED_FOR_S:
            draft.sent = None

    def running(self, server: str) -> frozenset[tuple[ItemKind, str]]:
        """The items of a server with a running call."""
        drafts = self._drafts.items()
        return frozenset((kind, name) for (of, kind, name), one in drafts if of == server and one.call)

    def saved(self, server: str, item: CatalogueItem) -> Mapping[str, Any]:
        """Saved arguments by name, the newest last."""
        return self.saved_calls.of(server, f"{item.kind.value} {item.name}")

    def save(self, server: str, draft: Draft, name: str, arguments: Any) -> None:
        """Save arguments under a name, without secrets."""
        item = f"{draft.item.kind.value} {draft.item.name}"
        self.saved_calls.add(server, item, name, _shareable(draft, arguments))

    def forget(self, server: str, draft: Draft, name: str) -> None:
        """Delete saved arguments."""
        self.saved_calls.remove(server, f"{draft.item.kind.value} {draft.item.name}", name)

    def past(self, server: str, item: CatalogueItem) -> list[PastCall]:
        """Earlier calls of an item, newest first."""
        return self.history.of(server, f"{item.kind.value} {item.name}")


def _shareable(draft: Draft, arguments: Any) -> Any:
    """The arguments without secrets; where the form cannot show them, without its secret members."""
    probe = form_node(draft.schema)
    probe.put(arguments)
    if same(probe.value(), arguments):
        return without_secrets(probe)
    fields = probe.field.properties() if isinstance(probe, ObjectNode) else ()
    secret = {field.key for field in fields if field.kind is FieldKind.SECRET}
    if not isinstance(arguments, dict):
        return arguments
    return {key: value for key, value in arguments.items() if key not in secret}


def _suggested(result: dict[str, Any] | None) -> Sequence[str]:
    found = (result or {}).get("completion")
    values = found.get("values") if isinstance(found, dict) else None
    return [one for one in values if isinstance(one, str)] if isinstance(values, list) else ()


def _status(outcome: CallOutcome) -> str:
    if outcome.cancelled:
        return "cancelled"
    if outcome.error is not None:
        return f"error {outcome.error.get('code', '')}"
    return "tool error" if (outcome.result or {}).get("isError") else "ok"


class WatchEvent(Enum):
    """What has happened to a watched resource since the last update."""

    NONE = "none"
    CHANGED = "changed"
    ENDED = "ended"
    """The server watches it no longer."""


class Watches:
    """Watches resources through the link, which counts how often they changed."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def toggle(self, app: App[None], server: str, draft: Draft | None) -> None:
        """Watch the resource that a draft read last, or stop watching it; notify the person."""
        if draft is None or not draft.uri:
            app.notify("read a resource first, then watch it", severity="warning", markup=False)
        elif draft.changes is None:
            self._link.watch(server, draft.uri)
            draft.changes = 0
            app.notify("watched: it is read again when the server says that it changed", markup=False)
        else:
            self._link.unwatch(server, draft.uri)
            draft.changes = draft.changes_read = None
            app.notify("no longer watched", markup=False)

    def update(self, server: str, draft: Draft) -> WatchEvent:
        """Update the count of changes of a draft."""
        if draft.changes is None:
            return WatchEvent.NONE
        count = self._link.watched(server).get(draft.uri)
        if count is None:
            # The core may not watch it yet: it has ended only if there was a count before.
            has_ended = draft.changes_read is not None
            if has_ended:
                draft.changes = draft.changes_read = None
            return WatchEvent.ENDED if has_ended else WatchEvent.NONE
        read, draft.changes, draft.changes_read = draft.changes_read or 0, count, count
        return WatchEvent.CHANGED if count > read else WatchEvent.NONE
