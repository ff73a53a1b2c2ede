"""The chosen item: a header, the arguments and the result, or how to add the first tool."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.content import Content
from textual.getters import query_one
from textual.widget import Widget
from textual.widgets import Static

from mcpdesk.link.values import ArgumentFailure, CatalogueItem, CoreView, ItemKind, ServerView
from mcpdesk.tui.forms.access_prompts import token_line
from mcpdesk.tui.forms.argument_editor import Arguments
from mcpdesk.tui.render.amounts import duration
from mcpdesk.tui.render.safe_text import clean, one_line
from mcpdesk.tui.results.result_view import ResultView, schema_marks, verdict
from mcpdesk.tui.workbench.catalogue_rows import badges
from mcpdesk.tui.workbench.drafts import Draft
from mcpdesk.tui.workbench.item_requests import Ask

_STACKED_BELOW = 80
"""Cells across below which the result is below the arguments instead of beside them."""
_MAX_CHECKED = 1_000_000
"""Bytes of a result above which it is not validated against the output schema."""
_VERBS = {ItemKind.TOOL: "calls the tool", ItemKind.PROMPT: "gets the prompt"}


class ItemPane(Vertical):
    """Shows one draft. `check` and `suggest` are those of the arguments."""

    DEFAULT_CSS = """
    ItemPane { width: 1fr; }
    ItemPane #work { height: 1fr; layout: horizontal; }
    ItemPane .box {
        border: round $foreground 20%; border-title-color: $text-muted; border-title-style: bold;
        width: 1fr; height: 1fr;
    }
    ItemPane .box:focus-within { border: round $primary; border-title-color: $text-primary; }
    ItemPane FirstToolLesson { display: none; padding: 1 2; color: $text-muted; height: 1fr; }
    ItemPane.-empty FirstToolLesson { display: block; }
    ItemPane.-empty #work { display: none; }
    ItemPane.-stacked #work { layout: vertical; }
    ItemPane.-stacked .box { border: none; border-top: solid $foreground 20%; }
    ItemPane.-stacked .box:focus-within { border-top: solid $primary; }
    ItemPane.-stacked.-fresh Arguments { height: 2fr; }
    ItemPane.-plain Arguments { display: none; }
    """
    arguments = query_one(Arguments)
    result = query_one(ResultView)

    def __init__(
        self,
        check: Callable[[Draft, Any], Sequence[ArgumentFailure]],
        suggest: Callable[[Draft], Ask | None] = lambda draft: None,
    ) -> None:
        super().__init__()
        self._check = check
        self._suggest = suggest
        self._title = ""
        self._drawing = asyncio.Lock()
        self.draft: Draft | None = None
        self._expected: CatalogueItem | None = None

    def compose(self) -> ComposeResult:
        yield ItemHeader()
        yield FirstToolLesson()
        with Container(id="work"):
            for box, title in (
                (Arguments(self._check, self._suggest), "Arguments"),
                (ResultView(), "Result"),
            ):
                box.border_title = title
                yield box.add_class("box")

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < _STACKED_BELOW, "-stacked")

    def expect(self, item: CatalogueItem) -> None:
        """Show the header of an item that is about to be loaded, and hide what belongs to another item."""
        self._expected = item
        self.describe(item)
        shown = self.draft.item if self.draft is not None else None
        self._work.visible = shown is not None and is_same_item(shown, item)

    async def load(self, draft: Draft) -> None:
        """Show a draft. Nothing changes for the draft that is shown already.

        The draft stays hidden when another item is expected by then.
        """
        if draft is self.draft and draft.node is self.arguments.form.node:
            if draft.call is None and draft.outcome is None:
                await self.draw_result()
            self._reveal(draft)
            return
        self.draft = draft
        with self.app.batch_update():
            self.set_class(False, "-empty")
            if self._is_expected(draft):
                self.describe(draft.item)
            await self.arguments.load(draft)
            self.on_arguments_swapped()
            await self.draw_result()
            self._reveal(draft)

    def _is_expected(self, draft: Draft) -> bool:
        return self._expected is None or is_same_item(self._expected, draft.item)

    def _reveal(self, draft: Draft) -> None:
        if self._is_expected(draft):
            self._work.visible = True

    @property
    def _work(self) -> Container:
        return self.query_one("#work", Container)

    def teach(self, server: ServerView) -> None:
        """Show how to add the first tool, instead of an item."""
        self.draft = self._expected = None
        self.set_class(True, "-empty")
        self.describe(None)
        self.query_one(FirstToolLesson).teach(server)

    def describe(self, item: CatalogueItem | None) -> None:
        """Show the header of an item, and whether it can be called."""
        self.query_one(ItemHeader).show(item)
        if item is not None:
            self.result.call_button.offer(item)

    def update(self, view: CoreView, server: str) -> None:
        """Show how long the call runs, and whose token the server is called with."""
        shown = next((one for one in view.servers if one.name == server), None)
        self.query_one(ItemHeader).update_server(shown)
        self.show_title()

    def on_arguments_swapped(self) -> None:
        """Hide the arguments where there are none to enter."""
        self.set_class(not self.arguments.has_any, "-plain")

    async def draw_result(self) -> None:
        """Show the running call of the draft, its outcome, or which key to press."""
        draft = self.draft
        async with self._drawing:
            if draft is not None and draft.call is not None and not draft.is_reread:
                await self.result.show_running(draft.call)
            elif draft is not None and draft.outcome is not None:
                structured = (draft.outcome.result or {}).get("structuredContent")
                schema = draft.item.definition.get("outputSchema")
                is_small = len(draft.outcome.raw) <= _MAX_CHECKED
                await self.result.show(draft.outcome, schema_marks(schema, structured) if is_small else {})
            else:
                await self.result.show_lines(*_hint(draft))
        self.show_title()

    def show_title(self) -> None:
        """Show in the title how the call goes or went."""
        title, style = _title(self.draft)
        if title != self._title:
            self._title = title
            self.result.border_title = Content.styled(title, style)
            self.set_class(title == "Result", "-fresh")


def is_same_item(one: CatalogueItem, other: CatalogueItem) -> bool:
    """Whether both describe the same item, perhaps in different versions."""
    return (one.kind, one.name) == (other.kind, other.name)


def _hint(draft: Draft | None) -> Iterator[Content]:
    """The problem of the item in full, and which key to press."""
    item = None if draft is None else draft.item
    if item is not None and item.problem:
        yield Content.styled(clean(item.problem), "$text-warning" if item.stale else "$text-error")
    if item is not None and (item.stale or not item.problem):
        yield Content.styled(f"ctrl+r {_VERBS.get(item.kind, 'reads the resource')}.", "$text-muted")


def _title(draft: Draft | None) -> tuple[str, str]:
    title, style = _call_state(draft)
    if draft is None or draft.changes is None:
        return title, style
    changes = f", {draft.changes} change{'s' * (draft.changes > 1)}" if draft.changes else ""
    return f"{title} ─ ◉ watched{changes}", style


def _call_state(draft: Draft | None) -> tuple[str, str]:
    if draft is not None and draft.call is not None and not draft.is_reread:
        return f"Result ─ … running {duration(time.time() - draft.call.started)}", "$text-warning"
    if draft is not None and draft.outcome is not None:
        told, style = verdict(draft.outcome)
        return f"Result ─ {told}", style
    if draft is not None and draft.item.problem and not draft.item.stale:
        return "Unavailable", "$text-error"
    return "Result", ""


class ItemHeader(Widget):
    """Up to four lines: title, badges and source; the problem; the token it needs; the description."""

    DEFAULT_CSS = """
    ItemHeader { height: auto; max-height: 4; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._item: CatalogueItem | None = None
        self._server: ServerView | None = None
        self._token = ("", "")
        """The line about tokens, and its colour."""

    def show(self, item: CatalogueItem | None) -> None:
        """Show another item."""
        self._item = item
        self._token = self._token_line()
        self.refresh(layout=True)

    def update_server(self, server: ServerView | None) -> None:
        """Update what is said about the server of the item."""
        self._server = server
        line = self._token_line()
        if line != self._token:
            self._token = line
            self.refresh(layout=True)

    def render(self) -> Content:
        item = self._item
        if item is None:
            return Content("")
        words = " · ".join(badge.word for badge in badges(item))
        source, room = one_line(item.source), self.size.width - cell_len(words) - 3
        name = item.name if item.title == item.name else f"{item.name} · {item.title}"
        fits = cell_len(name) + cell_len(source) + 4 <= room
        title = one_line(name, max(10, room))
        right = f"  {source}" if fits else ""
        gap = max(2, self.size.width - cell_len(title) - cell_len(words) - cell_len(right) - 2)
        style = "$text-error" if "destructive" in words else "$text-success"
        top = Content.assemble(
            (title, "bold $text-primary"), " " * gap, (words, style), (right, "$text-muted")
        )
        parts = [top]
        if item.problem:
            word = "stale, the previous version serves" if item.stale else "unavailable"
            # The pane below shows the whole problem of an item that cannot be called.
            told = one_line(f"✕ {word}: {item.problem}", 0 if item.stale else max(10, self.size.width))
            parts.append(Content.styled(told, "$text-warning" if item.stale else "$text-error"))
        if self._token[0]:
            parts.append(Content.styled(*self._token))
        said = clean(item.description.strip())
        below = " · ".join(part for part in (said, "" if fits else source) if part)
        if below:
            parts.append(Content.styled(below, "$text-muted"))
        return Content("\n").join(parts)

    def _token_line(self) -> tuple[str, str]:
        item, server = self._item, self._server
        is_offered = item is not None and bool(item.definition)
        if item is None or server is None or not is_offered:
            return "", ""
        return token_line(item, server, time.time())


_EXAMPLE = '''\
async def hello(name: str, times: int = 1) -> str:
    """Greet somebody."""
    return f"Hello, {name}! " * times
'''


class FirstToolLesson(Static):
    """How to add the first tool to a server without any."""

    def teach(self, server: ServerView) -> None:
        """Show the example with the folder of this server."""
        parts = [
            Content.styled(f"{clean(server.title)} offers nothing yet.", "bold"),
            *(Content.styled(f"✕ {clean(problem)}", "$text-error") for problem in server.problems),
            Content(""),
            Content.assemble("Save this as ", (f"{clean(server.folder)}/tools/hello.py", "$text-accent")),
            Content(""),
            Content.styled(_EXAMPLE, "$text-primary"),
            Content("It appears here as soon as the file is saved. F5 looks again at once."),
        ]
        self.update(Content("\n").join(parts))
