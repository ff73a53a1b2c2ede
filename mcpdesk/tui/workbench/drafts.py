"""State of each item in the workbench: edited arguments, running call, last outcome."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mcpdesk.link.link import Link, LinkCall
from mcpdesk.link.values import CallOutcome, CatalogueItem, ItemKind, LogLine, SchemaFailure
from mcpdesk.protocol.catalogue.schema_shapes import Schema
from mcpdesk.recorder.index.exchange import Status
from mcpdesk.recorder.readable_message import end_at_desk
from mcpdesk.tui.editor import source_location
from mcpdesk.tui.forms.form_model import Node, ObjectNode, clear_secrets, form_node
from mcpdesk.tui.forms.schema_fields import UNSET, FieldKind
from mcpdesk.tui.render.json_text import contains_all, pretty, same
from mcpdesk.tui.workbench.item_requests import completion_for, request_for, schema_of
from mcpdesk.tui.workbench.past_calls import SAVED_CALLS_FILE, History, PastCall, SavedCalls

if TYPE_CHECKING:
    from mcpdesk.tui.forms.field_widgets import SuggestionSource

MAX_SEARCHED_EXCHANGES = 200
"""Number of newest exchanges that are searched for a call that has just ended."""
SEARCH_TIME_S = 5.0
"""After the end of a call, its exchange is searched for at most this many seconds."""


def waiting_location(link: Link, connection: int, identifier: object) -> str:
    """Return the line of the author's code at which a request is waiting, or "" if it is unknown."""
    client = link.client(connection)
    running = () if client is None else client.running
    return next((call.where for call in running if call.id == identifier), "")


def is_same_item(item: CatalogueItem, other: CatalogueItem) -> bool:
    """Return True if both describe the same item, perhaps in different versions."""
    return (item.kind, item.name) == (other.kind, other.name)


@dataclass(slots=True, eq=False)
class Draft:
    """State of one item of a server."""

    link: Link
    server: str
    item: CatalogueItem
    schema: Schema
    node: Node
    text: str | None = None
    """Arguments as JSON text, while they are edited in that form."""
    arguments: Any = None
    """Arguments of the last call."""
    arguments_without_secrets: Any = None
    """Arguments of the last call without secrets."""
    call: LinkCall | None = None
    outcome: CallOutcome | None = None
    ended_call: LinkCall | None = None
    """Last call after its end, until its recorded duration is known. Otherwise None."""
    may_still_run: bool = False
    """True if the last call was cancelled but its code may still run."""
    desk_end: str = ""
    """Sentence about the last call if it ended at the desk, so that its server never received it, or \"\"."""
    previous_outcome: CallOutcome | None = None
    """Outcome of the call before the last, or None if its arguments were different."""
    log_lines: tuple[LogLine, ...] = ()
    """Log lines of the last call, including an exception with its traceback."""
    uri: str = ""
    """URI of the resource that was read last."""
    change_count: int | None = None
    """Number of change notifications for the watched resource, or None if it is not watched."""
    is_watched_by_server: bool = False
    """True if the core has reported that the server sends notifications for the watched resource."""
    is_reread: bool = False
    """True if the running call reads a watched resource again automatically."""
    has_no_suggestions: bool = False
    """True if the server refused to suggest values. It is not asked again."""
    notice: str = ""
    """Message that is still to be shown: the entered values that were kept when the schema changed."""
    warned_arguments: str | None = None
    """Invalid arguments that the person was warned about, as JSON text, or None. If the arguments are still
    the same at the next attempt, they are sent."""

    @property
    def key(self) -> tuple[str, str]:
        """Server, and kind and name of the item. Past and saved calls are stored under this key."""
        return self.server, f"{self.item.kind.value} {self.item.name}"

    def change_schema(self, schema: Schema) -> None:
        """Replace the schema.

        Unchanged fields get new defaults. Entered values are kept, with a message in `notice`.
        """
        old_defaults, entered = form_node(self.schema).value(), self.node.value()
        self.schema, self.node = schema, form_node(schema)
        if _is_same(entered, old_defaults):
            entered = {}
        else:
            self.node.put(merged_values(old_defaults, entered, self.node.value()))
        if self.text is not None and _is_same(_json_value(self.text), old_defaults):
            self.text = pretty(self.node.value())
        self.notice = _kept_values_message(old_defaults, entered, schema)

    def fill_form(self, arguments: Any) -> bool:
        """Put arguments into the form. Return False if the form cannot show all of them."""
        self.node.put(arguments)
        return contains_all(self.node.value(), arguments)

    def failures(self, arguments: Any) -> list[SchemaFailure]:
        """Validate arguments: with the server's validator for tools, otherwise only required names."""
        if self.item.kind is ItemKind.TOOL:
            return self.link.validate(self.server, self.item.name, arguments)
        members = arguments if isinstance(arguments, dict) else {}
        missing_names = [name for name in self.schema.get("required", ()) if name not in members]
        return [SchemaFailure((), f'"{name}" is a required property') for name in missing_names]

    @property
    def suggester(self) -> SuggestionSource | None:
        """Function that asks the server for suggestions, or None if the server or item has no suggestions."""
        servers = self.link.view().servers
        is_unsupported = any(server.name == self.server and not server.has_completion for server in servers)
        if is_unsupported or completion_for(self.item, "", "", {}) is None:
            return None
        return self._suggestions

    async def _suggestions(self, name: str, typed_text: str) -> Sequence[str]:
        """Return suggestions for the field `name`. Empty if the server has none or refuses."""
        request = completion_for(self.item, name, typed_text, self.node.value())
        if request is None or self.has_no_suggestions:
            return ()
        call = self.link.request(self.server, *request)
        try:
            outcome = await asyncio.wrap_future(call.outcome)
        except asyncio.CancelledError:
            call.cancel()
            raise
        self.has_no_suggestions = outcome.error is not None
        completion = (outcome.result or {}).get("completion")
        values = completion.get("values") if isinstance(completion, dict) else None
        return [value for value in values if isinstance(value, str)] if isinstance(values, list) else ()

    def start(self, arguments: Any) -> None:
        """Make the call.

        Raises: ValueError if the arguments do not make a valid request.
        """
        method, params = request_for(self.item, arguments)
        self.previous_outcome = self.outcome if same(arguments, self.arguments) else None
        self.arguments = arguments
        self.outcome, self.log_lines, self.desk_end = None, (), ""
        self.arguments_without_secrets = self.without_secrets(arguments)
        if self.change_count is None:
            self.uri = str(params.get("uri", "")) if method == "resources/read" else ""
        self.call = self.link.request(self.server, method, params)

    def waiting_location(self) -> str:
        """Return the line of the author's code at which the running call is waiting, or "" if it is
        unknown.
        """
        call = self.call
        return "" if call is None else waiting_location(self.link, call.connection, call.request_id)

    def log_of(self, call: LinkCall) -> tuple[LogLine, ...]:
        """Return the log lines that a call wrote."""
        key = (call.connection, call.request_id)
        return tuple(line for line in self.link.logs() if line.call == key)

    @property
    def location(self) -> tuple[Path, int] | None:
        """File and line where the last call failed. If there is no failure, file and line of the item.

        None if the file is not on this machine.
        """
        servers = self.link.view().servers
        folder = next((server.folder for server in servers if server.name == self.server), "")
        locations = [line.where for line in self.log_lines if line.where] or [self.item.source]
        return source_location(folder, locations[-1])

    def without_secrets(self, arguments: Any) -> Any:
        """Return the arguments without secrets.

        If the form cannot show them, only their secret members are removed.
        """
        node = form_node(self.schema)
        node.put(arguments)
        if same(node.value(), arguments):
            clear_secrets(node)
            return node.value()
        if not isinstance(arguments, dict):
            return arguments
        fields = node.field.properties() if isinstance(node, ObjectNode) else ()
        secret_names = {field.key for field in fields if field.kind is FieldKind.SECRET}
        return {key: value for key, value in arguments.items() if key not in secret_names}

    def update_duration(self) -> None:
        """Set the duration of the last outcome to the recorded one, as the traffic screen shows it.

        If the call ended at the desk, set `desk_end`.
        """
        call, traffic = self.ended_call, self.link.traffic
        if call is None or self.outcome is None:
            return
        count = len(traffic.exchanges)
        for number in reversed(range(max(0, count - MAX_SEARCHED_EXCHANGES), count)):
            exchange = traffic.exchange(number)
            is_of_call = (exchange.connection, exchange.id) == (call.connection, call.request_id)
            if not is_of_call or exchange.started < call.started - 1:
                continue
            operation = exchange if exchange.part_of is None else traffic.exchange(exchange.part_of)
            if operation.ended is not None and operation.status is not Status.LEFT:
                self.may_still_run = False
                self.outcome = replace(self.outcome, elapsed_s=operation.elapsed(operation.ended))
                self.desk_end = end_at_desk(traffic, exchange)
                self.ended_call = None
            return
        if time.time() - call.started - self.outcome.elapsed_s > SEARCH_TIME_S:
            self.ended_call = None

    def watch(self) -> None:
        """Ask the server for notifications about the resource that was read last."""
        self.link.watch(self.server, self.uri)
        self.change_count = 0

    def unwatch(self) -> None:
        """Stop watching the resource."""
        self.link.unwatch(self.server, self.uri)
        self._forget_watch()

    def update_watch(self) -> bool:
        """Read a watched resource again if it changed. Return True if the server no longer watches it."""
        if self.change_count is None:
            return False
        count = self.link.watched(self.server).get(self.uri)
        if count is None:
            # The core may not have begun to watch. The watch has ended only if the core reported a count
            # earlier.
            has_ended = self.is_watched_by_server
            if has_ended:
                self._forget_watch()
            return has_ended
        if count > self.change_count and self.call is None:
            self.is_reread = True
            self.call = self.link.request(self.server, "resources/read", {"uri": self.uri})
        self.change_count, self.is_watched_by_server = count, True
        return False

    def _forget_watch(self) -> None:
        self.change_count, self.is_watched_by_server = None, False


def merged_values(old_defaults: Any, entered: Any, new_defaults: Any) -> Any:
    """Return the form values after a schema change. A value that the person changed is kept.

    Other values are the new defaults. `entered` are the current values. Each argument may be `UNSET`.
    """
    if _is_same(entered, old_defaults):
        return new_defaults
    if not (isinstance(old_defaults, dict) and isinstance(entered, dict) and isinstance(new_defaults, dict)):
        return entered
    parts = (old_defaults, entered, new_defaults)
    names = dict.fromkeys(name for part in (new_defaults, entered) for name in part)
    merged = {name: merged_values(*(part.get(name, UNSET) for part in parts)) for name in names}
    return {name: value for name, value in merged.items() if value is not UNSET}


def _is_same(value: Any, other: Any) -> bool:
    """Return True if two values, each of which may be `UNSET`, are equal as JSON."""
    return value is other if UNSET in (value, other) else same(value, other)


def _json_value(text: str) -> Any:
    """Return the value of a JSON text, or `UNSET` if the text is invalid."""
    try:
        return json.loads(text)
    except ValueError:
        return UNSET


def _kept_values_message(old_defaults: Any, entered: Any, schema: Schema) -> str:
    """Return a message that names the values the person entered, or "" if no value was entered.

    These values are kept, even if the new schema has no field for them.
    """
    values = entered if isinstance(entered, dict) else {}
    defaults = old_defaults if isinstance(old_defaults, dict) else {}
    changed_names = [name for name, value in values.items() if not _is_same(value, defaults.get(name, UNSET))]
    if not changed_names:
        return ""
    removed_names = [name for name in changed_names if name not in (schema.get("properties") or {})]
    removed_note = f"; no longer a parameter: {', '.join(removed_names)}" if removed_names else ""
    return f"the schema changed; what you entered is kept: {', '.join(changed_names)}{removed_note}"


class Drafts:
    """State of all items. Several items may run simultaneously, each with one call at a time."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._drafts: dict[tuple[str, ItemKind, str], Draft] = {}
        self.history = History()
        self.saved_calls = SavedCalls()

    def store_at(self, path: Path | None) -> None:
        """Store history and saved calls in files next to each other. If the path is None, keep both in
        memory.
        """
        self.history = History(path)
        self.saved_calls = SavedCalls(None if path is None else path.with_name(SAVED_CALLS_FILE))

    def of(self, server: str, item: CatalogueItem) -> Draft:
        """Return the state of an item. After a change of its schema, only entered values are kept."""
        key = (server, item.kind, item.name)
        schema, draft = schema_of(item), self._drafts.get(key)
        if draft is None:
            draft = self._drafts[key] = Draft(self._link, server, item, schema, form_node(schema))
        elif draft.schema != schema:
            draft.change_schema(schema)
        draft.item = item
        return draft

    def finish_calls(self) -> list[Draft]:
        """Store the outcomes that have arrived, and return their drafts."""
        ended_drafts = [draft for draft in self._drafts.values() if draft.call and draft.call.outcome.done()]
        for draft in ended_drafts:
            if draft.call is None:
                continue
            draft.outcome = draft.call.outcome.result()
            draft.log_lines = draft.log_of(draft.call)
            draft.ended_call, draft.call = draft.call, None
            draft.may_still_run = draft.outcome.cancelled
            draft.update_duration()
            if not draft.is_reread:
                past_call = PastCall(
                    time.time(),
                    *draft.key,
                    draft.arguments_without_secrets,
                    _status(draft),
                    draft.outcome.elapsed_s,
                )
                self.history.add(past_call)
            draft.is_reread = False
        return ended_drafts

    def running_items(self, server: str) -> frozenset[tuple[ItemKind, str]]:
        """Return the items of a server with a running call."""
        return frozenset(
            (kind, name)
            for (server_of_item, kind, name), draft in self._drafts.items()
            if server_of_item == server and draft.call
        )


def _status(draft: Draft) -> str:
    outcome = draft.outcome
    assert outcome is not None
    if outcome.cancelled:
        return "stopped waiting" if draft.may_still_run else "cancelled"
    if outcome.error is not None:
        return f"protocol error {outcome.error.get('code', '')}"
    return "tool error" if (outcome.result or {}).get("isError") else "ok"
