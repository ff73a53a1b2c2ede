"""What the workbench keeps of each item: the arguments being edited, the running call, the last outcome."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcpdesk.link.link import Link, LinkCall
from mcpdesk.link.values import CallOutcome, CatalogueItem, ItemKind, LogLine, SchemaFailure
from mcpdesk.protocol.catalogue.schema_shapes import Schema
from mcpdesk.recorder.index.exchange import Status
from mcpdesk.recorder.readable_message import end_at_desk
from mcpdesk.tui.editor import source_place
from mcpdesk.tui.forms.form_model import Node, ObjectNode, clear_secrets, form_node
from mcpdesk.tui.forms.schema_fields import UNSET, FieldKind
from mcpdesk.tui.render.json_text import keeps, pretty, same
from mcpdesk.tui.workbench.item_requests import completion_for, request_for, schema_of
from mcpdesk.tui.workbench.past_calls import SAVED_CALLS_FILE, History, PastCall, SavedCalls

if TYPE_CHECKING:
    from mcpdesk.tui.forms.field_widgets import Ask

MOST_SEARCHED = 200
"""Newest exchanges that are searched for a call that has just ended."""
SEARCHED_FOR_S = 5.0
"""Seconds after the end of a call during which its exchange is searched."""


def awaited_at(link: Link, connection: int, identifier: object) -> str:
    """The author's line that a request awaits; empty where it is not known."""
    client = link.client(connection)
    running = () if client is None else client.running
    return next((call.where for call in running if call.id == identifier), "")


def is_same_item(one: CatalogueItem, other: CatalogueItem) -> bool:
    """Whether both describe the same item, perhaps in different versions."""
    return (one.kind, one.name) == (other.kind, other.name)


@dataclass(slots=True, eq=False)
class Draft:
    """The state of one item of a server."""

    link: Link
    server: str
    item: CatalogueItem
    schema: Schema
    node: Node
    text: str | None = None
    """The arguments as JSON text, while they are edited that way."""
    arguments: Any = None
    """The arguments of the last call."""
    shareable: Any = None
    """The arguments of the last call without secrets."""
    call: LinkCall | None = None
    outcome: CallOutcome | None = None
    ended_call: LinkCall | None = None
    """The last call, until its recorded duration is known."""
    is_left: bool = False
    """True from when the last call was cancelled until the traffic says that its code has ended."""
    desk_end: str = ""
    """How the last call ended at the desk, in words, if its server never saw it."""
    before: CallOutcome | None = None
    """The outcome of the call before the last, where it had the same arguments."""
    logged: tuple[LogLine, ...] = ()
    """What the last call logged, an exception with its traceback among it."""
    uri: str = ""
    """URI of the resource that was read last."""
    changes: int | None = None
    """How often the server has said that the watched resource changed; None: it is not watched."""
    is_watched_by_server: bool = False
    is_reread: bool = False
    """Whether the running call reads a watched resource again, without a wish of the person."""
    has_no_suggestions: bool = False
    """Whether the server refused to suggest values: it is not asked again."""
    kept: str = ""
    """What stayed of what was entered when the schema changed, until that is said."""
    insisted: Any = UNSET
    """The arguments that the person was warned about: when called again, they are sent as they are."""

    @property
    def key(self) -> tuple[str, str]:
        """The server, and kind and name of the item, as past and saved calls are found by."""
        return self.server, f"{self.item.kind.value} {self.item.name}"

    def change_schema(self, schema: Schema) -> None:
        """Take another schema: untouched fields follow it, what a person entered is kept, and said."""
        before, entered = form_node(self.schema).value(), self.node.value()
        self.schema, self.node = schema, form_node(schema)
        if _is_same(entered, before):
            entered = {}
        else:
            self.node.put(carried(before, entered, self.node.value()))
        if self.text is not None and _is_same(_read(self.text), before):
            self.text = pretty(self.node.value())
        self.kept = _told(before, entered, schema)

    def fill_form(self, arguments: Any) -> bool:
        """Put arguments into the form; False when the form cannot show all of them."""
        self.node.put(arguments)
        return keeps(self.node.value(), arguments)

    def failures(self, arguments: Any) -> list[SchemaFailure]:
        """Where the arguments do not fit: by the validator of the server for tools, else required names."""
        if self.item.kind is ItemKind.TOOL:
            return self.link.validate(self.server, self.item.name, arguments)
        given = arguments if isinstance(arguments, dict) else {}
        missing = [name for name in self.schema.get("required", ()) if name not in given]
        return [SchemaFailure((), f'"{name}" is a required property') for name in missing]

    @property
    def suggester(self) -> Ask | None:
        """The function that asks the server for suggestions; None where it says that it has none."""
        server = next((one for one in self.link.view().servers if one.name == self.server), None)
        has_none = completion_for(self.item, "", "", {}) is None or (
            server is not None and not server.completes
        )
        return None if has_none else self._suggestions

    async def _suggestions(self, name: str, typed: str) -> Sequence[str]:
        request = completion_for(self.item, name, typed, self.node.value())
        if request is None or self.has_no_suggestions:
            return ()
        call = self.link.request(self.server, *request)
        try:
            outcome = await asyncio.wrap_future(call.outcome)
        except asyncio.CancelledError:
            call.cancel()
            raise
        self.has_no_suggestions = outcome.error is not None
        found = (outcome.result or {}).get("completion")
        values = found.get("values") if isinstance(found, dict) else None
        return [one for one in values if isinstance(one, str)] if isinstance(values, list) else ()

    def start(self, arguments: Any) -> None:
        """Make the call.

        Raises: ValueError when the arguments make no request.
        """
        method, params = request_for(self.item, arguments)
        self.before = self.outcome if same(arguments, self.arguments) else None
        self.arguments, self.outcome, self.logged, self.desk_end = arguments, None, (), ""
        self.shareable = self.without_secrets(arguments)
        if self.changes is None:
            self.uri = str(params.get("uri", "")) if method == "resources/read" else ""
        self.call = self.link.request(self.server, method, params)

    def where(self) -> str:
        """The author's line that the running call awaits; empty where it is not known."""
        call = self.call
        return "" if call is None else awaited_at(self.link, call.connection, call.request_id)

    def logged_by(self, call: LinkCall) -> tuple[LogLine, ...]:
        """What a call logged, as far as it can be told from others."""
        key = (call.connection, call.request_id)
        return tuple(line for line in self.link.logs() if line.call == key)

    @property
    def place(self) -> tuple[Path, int] | None:
        """File and line where the last call failed, else where the item is; None if that is not here."""
        servers = self.link.view().servers
        folder = next((one.folder for one in servers if one.name == self.server), "")
        wheres = [line.where for line in self.logged if line.where] or [self.item.source]
        return source_place(folder, wheres[-1])

    def without_secrets(self, arguments: Any) -> Any:
        """The arguments without secrets; where the form cannot show them, without its secret members."""
        probe = form_node(self.schema)
        probe.put(arguments)
        if same(probe.value(), arguments):
            clear_secrets(probe)
            return probe.value()
        if not isinstance(arguments, dict):
            return arguments
        fields = probe.field.properties() if isinstance(probe, ObjectNode) else ()
        secret = {field.key for field in fields if field.kind is FieldKind.SECRET}
        return {key: value for key, value in arguments.items() if key not in secret}

    def update_duration(self) -> None:
        """Set the duration of the last outcome to the recorded one, as the traffic screen shows it.

        There it also says whether the call ended at the desk.
        """
        call, traffic = self.ended_call, self.link.traffic
        if call is None or self.outcome is None:
            return
        count = len(traffic.exchanges)
        for number in reversed(range(max(0, count - MOST_SEARCHED), count)):
            found = traffic.exchange(number)
            is_same = (found.connection, found.id) == (call.connection, call.request_id)
            if not is_same or found.started < call.started - 1:
                continue
            whole = found if found.whole is None else traffic.exchange(found.whole)
            if whole.ended is not None and whole.status is not Status.LEFT:
                self.is_left = False
                self.outcome = replace(self.outcome, elapsed_s=whole.elapsed(whole.ended))
                self.desk_end = end_at_desk(traffic, found)
                self.ended_call = None
            return
        if time.time() - call.started - self.outcome.elapsed_s > SEARCHED_FOR_S:
            self.ended_call = None

    def watch(self) -> None:
        """Let the server say when the resource that was read last changes."""
        self.link.watch(self.server, self.uri)
        self.changes = 0

    def unwatch(self) -> None:
        """Watch the resource no longer."""
        self.link.unwatch(self.server, self.uri)
        self._forget_watch()

    def update_watch(self) -> bool:
        """Read a watched resource again when it has changed. True: the server watches it no longer."""
        if self.changes is None:
            return False
        count = self.link.watched(self.server).get(self.uri)
        if count is None:
            # The core may not watch it yet: it has ended only if there was a count before.
            has_ended = self.is_watched_by_server
            if has_ended:
                self._forget_watch()
            return has_ended
        if count > self.changes and self.call is None:
            self.is_reread = True
            self.call = self.link.request(self.server, "resources/read", {"uri": self.uri})
        self.changes, self.is_watched_by_server = count, True
        return False

    def _forget_watch(self) -> None:
        self.changes, self.is_watched_by_server = None, False


def carried(before: Any, entered: Any, fresh: Any) -> Any:
    """What a form holds with another schema: what a person entered, and else what it holds untouched.

    `before` is what it held untouched, `entered` what it held last, `fresh` what it holds untouched now;
    each may be `UNSET`.
    """
    if _is_same(entered, before):
        return fresh
    if not (isinstance(before, dict) and isinstance(entered, dict) and isinstance(fresh, dict)):
        return entered
    parts = (before, entered, fresh)
    names = dict.fromkeys(name for part in (fresh, entered) for name in part)
    found = {name: carried(*(part.get(name, UNSET) for part in parts)) for name in names}
    return {name: value for name, value in found.items() if value is not UNSET}


def _is_same(one: Any, other: Any) -> bool:
    return one is other if UNSET in (one, other) else same(one, other)


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return UNSET


def _told(before: Any, entered: Any, schema: Schema) -> str:
    """What a person entered and is kept, and which of it no field is for any more."""
    given, untouched = (
        entered if isinstance(entered, dict) else {},
        before if isinstance(before, dict) else {},
    )
    touched = [name for name, value in given.items() if not _is_same(value, untouched.get(name, UNSET))]
    if not touched:
        return ""
    gone = [name for name in touched if name not in (schema.get("properties") or {})]
    more = f"; no longer a parameter: {', '.join(gone)}" if gone else ""
    return f"the schema changed; what you entered is kept: {', '.join(touched)}{more}"


class Drafts:
    """The state of all items. Several items may run at once, each with one call at a time."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._drafts: dict[tuple[str, ItemKind, str], Draft] = {}
        self.history = History()
        self.saved_calls = SavedCalls()

    def store_at(self, path: Path | None) -> None:
        """Store the history in this file and saved calls beside it; None keeps both in memory."""
        self.history = History(path)
        self.saved_calls = SavedCalls(None if path is None else path.with_name(SAVED_CALLS_FILE))

    def of(self, server: str, item: CatalogueItem) -> Draft:
        """The state of an item. A changed schema brings its own defaults; what a person entered is kept."""
        key = (server, item.kind, item.name)
        schema, draft = schema_of(item), self._drafts.get(key)
        if draft is None:
            draft = self._drafts[key] = Draft(self._link, server, item, schema, form_node(schema))
        elif draft.schema != schema:
            draft.change_schema(schema)
        draft.item = item
        return draft

    def finish_calls(self) -> list[Draft]:
        """Store the outcomes that have arrived; returns the drafts they belong to."""
        ended = [draft for draft in self._drafts.values() if draft.call and draft.call.outcome.done()]
        for draft in ended:
            if draft.call is None:
                continue
            draft.outcome = draft.call.outcome.result()
            draft.logged = draft.logged_by(draft.call)
            draft.ended_call, draft.call = draft.call, None
            draft.is_left = draft.outcome.cancelled
            draft.update_duration()
            if not draft.is_reread:
                past = PastCall(
                    time.time(), *draft.key, draft.shareable, _status(draft), draft.outcome.elapsed_s
                )
                self.history.add(past)
            draft.is_reread = False
        return ended

    def running(self, server: str) -> frozenset[tuple[ItemKind, str]]:
        """The items of a server with a running call."""
        drafts = self._drafts.items()
        return frozenset((kind, name) for (of, kind, name), one in drafts if of == server and one.call)


def _status(draft: Draft) -> str:
    outcome = draft.outcome
    assert outcome is not None
    if outcome.cancelled:
        return "stopped waiting" if draft.is_left else "cancelled"
    if outcome.error is not None:
        return f"error {outcome.error.get('code', '')}"
    return "tool error" if (outcome.result or {}).get("isError") else "ok"
