"""Pane of the selected item: header, arguments and result, or instructions to add the first tool."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping

from rich.cells import cell_len
from textual import events, work
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.content import Content
from textual.geometry import Size
from textual.getters import query_one
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from mcpdesk.link.values import CallOutcome, CatalogueItem, CoreView, ItemKind, ServerView
from mcpdesk.protocol.catalogue.result_faults import result_faults
from mcpdesk.tui.actions import check_up_hint, key_or_palette
from mcpdesk.tui.forms.access_prompts import token_line
from mcpdesk.tui.forms.argument_editor import Arguments
from mcpdesk.tui.render.amounts import duration
from mcpdesk.tui.render.json_text import Path, path_text
from mcpdesk.tui.render.safe_text import clean, one_line, shortened
from mcpdesk.tui.results.client_limits import MIN_CHECKED_BYTES, exceeded_limits
from mcpdesk.tui.results.result_view import ResultView, schema_marks, verdict
from mcpdesk.tui.screens.server_page import server_text
from mcpdesk.tui.widgets.first_size import WithFirstResize
from mcpdesk.tui.workbench.catalogue_list import badges
from mcpdesk.tui.workbench.drafts import Draft, is_same_item
from mcpdesk.tui.workbench.offered_servers import OfferedServers
from mcpdesk.tui.workbench.split import STEP_PERCENT, Split

_MIN_SIDE_BY_SIDE_WIDTH = 84
"""Minimum width in cells of a pane with the result beside the arguments. In a narrower pane, the result is
below the arguments."""
_MIN_HIGH_ROWS = 36
"""Minimum height in rows of a high screen."""
_MIN_SIDE_BY_SIDE_WIDTH_IF_HIGH = 110
"""The same minimum for a pane of a high screen, on which a wide result below the arguments is easier to
read."""
MAX_ARGUMENTS_PERCENT = 60
"""Maximum height of the arguments above their result, in percent of the pane."""
_MIN_ARGUMENTS_ROWS = 8
"""Minimum number of rows for the arguments of a long form, if there is a result."""
_MAX_PERCENT_WITH_RESULT = 20
"""Maximum height of the arguments above an existing result, in percent of the screen."""
_MAX_VALIDATED_BYTES = 1_000_000
"""Maximum number of bytes of a result that is validated against the output schema."""
_CALL_PHRASES = {ItemKind.TOOL: "calls the tool", ItemKind.PROMPT: "gets the prompt"}
"""Effect of ctrl+r, by kind of item. Any other item is read."""


class WorkArea(WithFirstResize, Container):
    """Container of arguments and result."""

    class Resized(Message):
        """The size of the container changed."""

    def on_resize(self) -> None:
        self.post_message(self.Resized())


class ItemPane(WithFirstResize, Vertical):
    """Pane with one draft, or with instructions to add the first tool."""

    DEFAULT_CSS = """
    ItemPane { width: 1fr; }
    ItemPane #work { height: 1fr; layout: horizontal; }
    ItemPane .box {
        border: round $foreground 20%; border-title-color: $text-muted; border-title-style: bold;
        width: 1fr; height: 1fr;
    }
    ItemPane .box.-fitted { height: auto; }
    ItemPane .box.-fitted.-json { height: 1fr; }
    ItemPane .box:focus-within { border: round $primary; border-title-color: $text-primary; }
    ItemPane FirstToolInstructions { display: none; padding: 1 2; color: $text-muted; height: 1fr; }
    ItemPane.-empty FirstToolInstructions { display: block; }
    ItemPane.-empty #work { display: none; }
    ItemPane OfferedServers { display: none; height: 1fr; }
    ItemPane.-none FirstToolInstructions { height: auto; }
    ItemPane.-none OfferedServers { display: block; }
    ItemPane.-stacked #work { layout: vertical; }
    ItemPane.-stacked .box { border: none; border-top: solid $foreground 20%; }
    ItemPane.-stacked .box:focus-within { border-top: solid $primary; }
    """
    arguments = query_one(Arguments)
    result = query_one(ResultView)

    def __init__(self) -> None:
        super().__init__()
        self._title = ""
        self._draw_lock = asyncio.Lock()
        self._checked_limits: tuple[CallOutcome | None, list[str]] = (None, [])
        """Last outcome that was compared with the limits of known clients, and texts about the limits that it
        exceeds."""
        self.draft: Draft | None = None
        self._split = Split()
        self._is_dragged = False
        """True while the mouse drags the border between arguments and result."""
        self._expected_item: CatalogueItem | None = None
        """Item that is about to be loaded, or None."""

    def compose(self) -> ComposeResult:
        yield ItemHeader()
        yield FirstToolInstructions()
        yield OfferedServers()
        with WorkArea(id="work"):
            for box, title in ((Arguments(), "Arguments"), (ResultView(), "Result")):
                box.border_title = title
                yield box.add_class("box")

    def on_resize(self, event: events.Resize) -> None:
        is_high = self.screen.size.height >= _MIN_HIGH_ROWS
        min_width = _MIN_SIDE_BY_SIDE_WIDTH_IF_HIGH if is_high else _MIN_SIDE_BY_SIDE_WIDTH
        self.set_class(event.size.width < min_width, "-stacked")
        self._divide()

    def on_work_area_resized(self) -> None:
        """Divide the space again after a change of the header's height."""
        self._divide()

    @property
    def _is_stacked(self) -> bool:
        return self.has_class("-stacked")

    def widen_result(self, by: int) -> None:
        """Increase the share of the result, in steps, and remember it."""
        is_stacked = self._is_stacked
        _, share = self._split.parts(is_stacked=is_stacked)
        height = self.query_one("#work").size.height
        # If the person chose no share, arguments above the result are as high as their form.
        visible_share = 100 * self.result.outer_size.height / height if is_stacked and height else share
        self._split.move(by * STEP_PERCENT, is_stacked=is_stacked, visible_share=visible_share)
        self._split.store()
        self._divide()

    def _divide(self) -> None:
        """Divide the space between arguments and result."""
        is_stacked = self._is_stacked
        shares = self._split.parts(is_stacked=is_stacked)
        for box, share in zip((self.arguments, self.result), shares, strict=True):
            box.styles.width = "1fr" if is_stacked else f"{share}fr"
            box.styles.height = f"{share}fr" if is_stacked else "1fr"
        if is_stacked and self._split.share(is_stacked=True) is None:
            max_rows = max(1, self.query_one("#work").size.height * MAX_ARGUMENTS_PERCENT // 100)
            # The limit depends on the screen instead of the space above the traffic strip. Otherwise hints
            # would appear and disappear with the number of lines of the strip.
            share_of_screen = self.screen.size.height * _MAX_PERCENT_WITH_RESULT // 100
            max_rows_with_result = min(max_rows, max(_MIN_ARGUMENTS_ROWS, share_of_screen))
            form_rows = max_rows_with_result if self._has_result else max_rows
            self.arguments.fit_form(form_rows, max_rows_with_hints=max_rows_with_result)
            self.result.styles.height = "1fr"
        else:
            self.arguments.fit_form(None)

    @property
    def _has_result(self) -> bool:
        draft = self.draft
        return draft is not None and (draft.call is not None or draft.outcome is not None)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Start dragging the border between arguments and result."""
        border = self.result.region
        if self._is_stacked:
            is_on_border = event.screen_y == border.y and border.x <= event.screen_x < border.right
        else:
            is_on_border = event.screen_x in (border.x - 1, border.x) and border.y <= event.screen_y
        if is_on_border and event.screen_y < border.bottom:
            self._is_dragged = True
            self.capture_mouse()
            event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Move the border with the mouse."""
        if not self._is_dragged:
            return
        work_region = self.query_one("#work").region
        if self._is_stacked:
            share = (work_region.bottom - event.screen_y) / max(1, work_region.height)
        else:
            share = (work_region.right - event.screen_x) / max(1, work_region.width)
        self._split.set(100 * share, is_stacked=self._is_stacked)
        self._divide()

    def on_mouse_up(self) -> None:
        """Stop dragging the border, and remember its position."""
        if self._is_dragged:
            self._is_dragged = False
            self.release_mouse()
            self._split.store()

    def expect(self, item: CatalogueItem) -> None:
        """Show the header of an item that is about to be loaded, and hide everything of other items."""
        self._expected_item = item
        self.describe(item)
        self._reveal()

    async def load(self, draft: Draft) -> None:
        """Show a draft. If the draft is already shown, only show an expected item again.

        If another item is expected when the draft is loaded, the draft stays hidden.
        """
        if draft is self.draft and draft.node is self.arguments.form.node:
            if draft.call is None and draft.outcome is None:
                await self.draw_result()
            self._reveal()
            return
        self.draft = draft
        with self.app.batch_update():
            self.set_class(False, "-empty", "-none")
            await self.arguments.load(draft)
            await self.draw_result()
            self._reveal()
            if self._expected_item is None:
                self.describe(draft.item)

    def _reveal(self) -> None:
        """Show arguments and result if they belong to the expected item."""
        draft, expected_item = self.draft, self._expected_item
        is_expected = expected_item is None or (draft is not None and is_same_item(draft.item, expected_item))
        self.query_one("#work").visible = is_expected

    def show_instructions(self, server: ServerView | None) -> None:
        """Show how to add the first tool, or the first server, instead of an item."""
        self.draft = self._expected_item = None
        self.set_class(True, "-empty")
        self.set_class(server is None, "-none")
        if server is None:
            self.query_one(OfferedServers).search()
        self.describe(None)
        self.query_one(FirstToolInstructions).show_instructions(server)

    def describe(self, item: CatalogueItem | None) -> None:
        """Show the header of an item, and whether it can be called."""
        self.query_one(ItemHeader).show(item)
        if item is not None:
            self.result.call_button.offer(item)

    def update(self, view: CoreView, server: str) -> None:
        """Update the duration of the running call, and the line about the token of the server."""
        if not view.servers and not self.has_class("-none"):
            self.show_instructions(None)
        server_view = next((candidate for candidate in view.servers if candidate.name == server), None)
        self.query_one(ItemHeader).update_server(server_view)
        self.show_title()

    async def draw_result(self) -> None:
        """Show the running call of the draft, its outcome, or the key that makes the first call."""
        draft = self.draft
        async with self._draw_lock:
            if draft is not None and draft.call is not None and not draft.is_reread:
                await self.result.show_running(draft.call, draft.waiting_location)
            elif draft is not None and draft.outcome is not None:
                structured = (draft.outcome.result or {}).get("structuredContent")
                schema = draft.item.definition.get("outputSchema")
                is_small = len(draft.outcome.raw) <= _MAX_VALIDATED_BYTES
                marks = schema_marks(schema, structured) if is_small else {}
                faults = _faults(draft, marks) if is_small else []
                checked_outcome, limit_texts = self._checked_limits
                is_checked = checked_outcome is draft.outcome
                if is_checked:
                    faults += limit_texts
                await self.result.show(draft.outcome, marks, draft.log_lines, draft.previous_outcome, faults)
                if not is_checked:
                    self._find_limits(draft, draft.outcome)
            else:
                await self.result.show_lines(*_hint_lines(draft))
        self._divide()
        self.show_title()

    @work(exclusive=True, group="limits")
    async def _find_limits(self, draft: Draft, outcome: CallOutcome) -> None:
        """Show which known clients would cut, move or refuse the result of a tool. Each outcome is compared
        once, on a worker thread.
        """
        if draft.item.kind is not ItemKind.TOOL or len(outcome.raw) < MIN_CHECKED_BYTES:
            return
        texts = await asyncio.to_thread(exceeded_limits, outcome.raw, draft.item.definition, "")
        async with self._draw_lock:
            self._checked_limits = outcome, texts
            if self.draft is draft and draft.call is None and draft.outcome is outcome:
                await self.result.add_faults(texts)

    def show_title(self) -> None:
        """Show the state of the call in the title."""
        title, style = _result_title(self.draft)
        if title != self._title:
            self._title = title
            self.result.border_title = Content.styled(title, style)


def _faults(draft: Draft, marks: Mapping[Path, str]) -> list[str]:
    """Return the faults of a tool's result. `marks` are the faults of its structured content, by path."""
    result = draft.outcome.result if draft.outcome is not None else None
    if result is None or draft.item.kind is not ItemKind.TOOL:
        return []
    faults = [f"{path_text(path)}: {reason}" if path else reason for path, reason in marks.items()]
    return result_faults(result, draft.item.definition, lambda schema, value: faults)


def _hint_lines(draft: Draft | None) -> Iterator[Content]:
    """Yield the full problem of the item, and the key that makes the call."""
    if draft is None:
        return
    item = draft.item
    if item.problem:
        yield Content.styled(clean(item.problem), "$text-warning" if item.stale else "$text-error")
    if item.stale or not item.problem:
        yield Content.styled(f"ctrl+r {_CALL_PHRASES.get(item.kind, 'reads the resource')}.", "$text-muted")


def _result_title(draft: Draft | None) -> tuple[str, str]:
    """Return the title of the result, with the state of the call, and its style."""
    title, style = "Result", ""
    if draft is None:
        return title, style
    if draft.call is not None and not draft.is_reread:
        title, style = f"Result ─ … running {duration(time.time() - draft.call.started)}", "$text-warning"
    elif draft.outcome is not None:
        verdict_text, style = verdict(draft.outcome, is_still_running=draft.may_still_run)
        title = f"Result ─ {verdict_text}"
        if draft.desk_end:
            title, style = f"{title} ─ {draft.desk_end}", "$text-warning"
    elif draft.item.problem and not draft.item.stale:
        title, style = "Unavailable", "$text-error"
    if draft.change_count is not None:
        title += " ─ ◉ watched"
        if draft.change_count:
            title += f", {draft.change_count} change{'s' * (draft.change_count > 1)}"
    return title, style


class ItemHeader(Widget):
    """Header of up to four lines: title, badges and source, then the problem, the required token, and the
    description.
    """

    DEFAULT_CSS = """
    ItemHeader { height: auto; max-height: 4; padding: 0 1; }
    """
    max_lines = 4

    _item: CatalogueItem | None = None
    _server: ServerView | None = None
    _shown_token_line = ("", "")
    """Line about tokens, and its colour."""
    _width = 0
    """Width in cells. Reading the size during layout would lay out the whole screen again."""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        self._width = width
        return super().get_content_height(container, viewport, width)

    def show(self, item: CatalogueItem | None) -> None:
        """Show another item."""
        self._item = item
        self._shown_token_line = self._token_line()
        self.refresh(layout=True)

    def update_server(self, server: ServerView | None) -> None:
        """Update the information about the server of the item."""
        self._server = server
        line = self._token_line()
        if line != self._shown_token_line:
            self._shown_token_line = line
            self.refresh(layout=True)

    def render(self) -> Content:
        item = self._item
        if item is None:
            return Content("")
        badge_text = " · ".join(badge.word for badge in badges(item))
        source = one_line(item.source)
        title_width = self._width - cell_len(badge_text) - 3
        name = item.name if item.title == item.name else f"{item.name} · {item.title}"
        has_source_room = cell_len(name) + cell_len(source) + 4 <= title_width
        title = one_line(name, max(10, title_width))
        source_text = f"  {source}" if has_source_room else ""
        gap = max(2, self._width - cell_len(title) - cell_len(badge_text) - cell_len(source_text) - 2)
        style = "$text-error" if "destructive" in badge_text else "$text-success"
        title_line = Content.assemble(
            (title, "bold $text-primary"), " " * gap, (badge_text, style), (source_text, "$text-muted")
        )
        lines = [title_line]
        if item.problem:
            state = "stale: the previous version is served" if item.stale else "unavailable"
            # The pane below shows the full problem of an item that cannot be called.
            problem = f"✕ {state}: {item.problem}"
            problem_text = one_line(problem) if item.stale else shortened(problem, max(10, self._width))
            lines.append(Content.styled(problem_text, "$text-warning" if item.stale else "$text-error"))
        if self._shown_token_line[0]:
            lines.append(Content.styled(*self._shown_token_line))
        description_parts = [
            part for part in (clean(item.description.strip()), "" if has_source_room else source) if part
        ]
        if description_parts:
            wrapped = Content(" · ".join(description_parts)).wrap(max(1, self._width))
            rows = [row for row in wrapped if row.plain.strip()]
            visible_rows = [row.plain.rstrip() for row in rows[: max(1, self.max_lines - len(lines))]]
            if len(rows) > len(visible_rows):
                visible_rows[-1] = one_line(f"{visible_rows[-1]} …", self._width)
            lines += [Content.styled(row, "$text-muted") for row in visible_rows]
        return Content("\n").join(lines)

    def _token_line(self) -> tuple[str, str]:
        item, server = self._item, self._server
        if item is None or server is None or not item.definition:
            return "", ""
        return token_line(item, server, time.time())


_EXAMPLE_TOOL = '''\
async def hello(name: str, times: int = 1) -> str:
    """Return a greeting."""
    return f"Hello, {name}! " * times
'''


class FirstToolInstructions(Static):
    """Text about a server without items: instructions for the first item, or the state of an upstream."""

    def show_instructions(self, server: ServerView | None) -> None:
        """Show an example with the folder of this server, or the state of an upstream."""
        if server is None:
            key = key_or_palette("main.add_server")
            servers_key = key_or_palette("main.servers")
            check_up = check_up_hint(
                f"\n{servers_key}, then {{key}}, checks the servers of all your clients."
            )
            self.update(
                f"No servers. Enter opens one of these. {key} adds another: a folder, URL, program or file."
                f"{check_up}"
            )
            return
        if server.upstream is not None:
            self.update(server_text(server))
            return
        parts = [
            Content.styled(f"{clean(server.title)} has no tools, resources or prompts yet.", "bold"),
            *(Content.styled(f"✕ {clean(problem)}", "$text-error") for problem in server.problems),
            Content(""),
            Content.assemble("Save this as ", (f"{clean(server.folder)}/tools/hello.py", "$text-accent")),
            Content(""),
            Content.styled(_EXAMPLE_TOOL, "$text-primary"),
            Content("It appears here as soon as the file is saved. F5 reloads at once."),
        ]
        self.update(Content("\n").join(parts))
