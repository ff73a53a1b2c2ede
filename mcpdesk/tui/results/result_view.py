"""Result view: a running call, or its outcome in tabs for content, structured content, raw message, and
table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import orjson
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from mcpdesk.byte_size import size_text
from mcpdesk.features import features_with
from mcpdesk.link.link import LinkCall
from mcpdesk.link.values import CallOutcome, CatalogueItem, ItemKind, LogLine, Progress, schema_failures
from mcpdesk.plain_text import json_escaped
from mcpdesk.protocol.catalogue.schema_shapes import Schema
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.recorder.exchange_summary import MIN_PROGRESS
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.amounts import duration
from mcpdesk.tui.render.json_text import Path, pretty
from mcpdesk.tui.render.safe_text import clean, one_line
from mcpdesk.tui.results.after_call import call_log_widgets, differences
from mcpdesk.tui.results.json_tree import JsonTree
from mcpdesk.tui.results.long_text import LongText, line_start
from mcpdesk.tui.results.older_revision import older_revision_offer
from mcpdesk.tui.results.record_table import RecordTable
from mcpdesk.tui.results.records import Records, as_csv
from mcpdesk.tui.results.required_links import link_widgets
from mcpdesk.tui.results.result_content import Block, BlockKind, blocks, content_text, table_of
from mcpdesk.tui.results.steady_text_scroll import SteadyTextScroll
from mcpdesk.tui.widgets.choice_box import Chip, TabStrip
from mcpdesk.tui.widgets.typed_query import TypedQuery

TABS = ("Content", "Structured", "Raw", "Table")
_TABLE = TABS.index("Table")
MAX_BLOCKS = 100
"""Maximum number of content blocks that are drawn. The tab Raw shows all of them."""
_TOKEN_HINTS = {
    ErrorCode.UNAUTHORIZED: "F6 sets a token for this server.",
    ErrorCode.FORBIDDEN: "F6 sets another token for this server.",
}
"""Error code -> advice."""
_NO_MESSAGE_TEXT = "No message yet."
_CALL_VERBS = {ItemKind.TOOL: "Call", ItemKind.PROMPT: "Get"}
_MAX_MARKDOWN_LENGTH = 16_000
"""Maximum number of characters that are rendered as Markdown. Longer text is shown plain."""


class ResultContent(TypedQuery, SteadyTextScroll, can_focus=True):
    """Blocks of the content, in a scrolling container. All texts are searched together."""

    ALLOW_MAXIMIZE = True
    BINDINGS: ClassVar[list[BindingType]] = bindings_for("result_text")

    class StatusChanged(Message):
        """The line below the content changed: `query_status`, or the columns on the screen."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._current_hit = (-1, -1)
        """Index of the text with the current hit, and the offset of the hit. (-1, -1) if there is none."""
        self.query_status = ""
        """Typed line, with the number of the current hit."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable a search if there is a text, and the next hit if there is a search."""
        if action == "next_hit":
            return self.query_sign == "/" and bool(self.query_text)
        if action in ("search", "go_to"):
            return bool(self.texts or self._markdown_widgets)
        return super().check_action(action, parameters)

    @property
    def _markdown_widgets(self) -> list[Widget]:
        """Texts that are drawn as Markdown."""
        return [child for child in self.children if isinstance(getattr(child, "source", None), str)]

    async def action_search(self) -> None:
        """Search from the top of the content. For this, rendered Markdown is replaced by its source."""
        for markdown in self._markdown_widgets:
            await self.mount(LongText(getattr(markdown, "source", "")), after=markdown)
            await markdown.remove()
        self._current_hit = (-1, -1)
        self.begin_query()

    def action_go_to(self) -> None:
        """Ask for the number of a line, or a percentage: `50%`."""
        self.begin_query(":")

    def action_scroll_home(self) -> None:
        """Go to the top without animation, because the distance may be long."""
        self.scroll_home(animate=False)

    def query_changed(self) -> None:
        """Go to the first hit of the typed text."""
        if self.query_sign == "/":
            self.action_next_hit(0)
        else:
            self._show_query_status("line, or %")

    def query_ended(self) -> None:
        """Handle the end of typing: keep or clear the hits, or go to the requested line."""
        if self.query_sign == ":":
            requested_line, self.query_text = self.query_text, ""
            self._go_to(requested_line)
        self._show_hits()

    def clear_query(self) -> None:
        """Clear the query, because other contents will be shown."""
        self.is_typing, self.query_text, self._current_hit = False, "", (-1, -1)
        self.first_column = 0
        self._show_query_status("")

    def action_next_hit(self, by: int = 1) -> None:
        """Go to the next or previous hit, with wrapping. If `by` is 0, keep the current hit if it still
        matches.
        """
        texts, query = self.texts, self.query_text
        text_index, old_offset = self._current_hit
        text_index = max(0, text_index)
        new_offset = -1
        for _ in range(len(texts) + 1):
            text = texts[text_index]
            if by < 0:
                end = len(text.text) if old_offset < 0 else old_offset
                new_offset = text.find(query, end, forward=False)
            else:
                new_offset = text.find(query, max(0, old_offset + by))
            if new_offset >= 0:
                break
            text_index, old_offset = (text_index + (by or 1)) % len(texts), -1
        self._current_hit = (text_index, new_offset) if new_offset >= 0 else (-1, -1)
        self._show_hits()
        if new_offset >= 0:
            self._reveal(texts[text_index], new_offset, len(query))

    def _show_hits(self) -> None:
        """Highlight all hits, and show the number of the current one."""
        texts, query = self.texts, self.query_text
        hit_index, offset = self._current_hit
        for index, text in enumerate(texts):
            text.mark(query, offset if index == hit_index else -1)
        if not query:
            self._show_query_status("")
        elif offset < 0:
            self._show_query_status("nothing found")
        else:
            hits_before = sum(text.count(query) for text in texts[:hit_index])
            hits_before += texts[hit_index].count(query, offset)
            total = sum(text.count(query) for text in texts)
            self._show_query_status(f"{hits_before + 1:,} of {total:,}")

    def _show_query_status(self, count_text: str) -> None:
        self.query_status = f"{one_line(self.query_line)}  {count_text}" if self.has_query else ""
        self.post_message(self.StatusChanged())

    def wrapping_changed(self) -> int:
        """Lay out the texts again. A hit that is on the screen stays there."""
        hit_index, offset = self._current_hit
        text = self.texts[hit_index] if offset >= 0 else None
        is_hit_shown = text is not None and self._is_on_screen(text, text.row_of(offset))
        first_column = super().wrapping_changed()
        if text is not None and is_hit_shown:
            self.call_after_refresh(self._reveal, text, offset, len(self.query_text))
        return first_column

    def columns_changed(self) -> None:
        super().columns_changed()
        self.post_message(self.StatusChanged())

    def _reveal(self, text: LongText, offset: int, length: int = 0) -> None:
        """Scroll to a part of a text."""
        row = text.row_of(offset)
        start, end = (text.column_of(position) for position in (offset, offset + length))
        self.show_columns(start, max(start, end))
        self.call_after_refresh(self._reveal_row, text, row)

    def _reveal_row(self, text: LongText, row: int) -> None:
        """Scroll until a row of a text is in the upper third, unless it is on the screen already."""
        if not self._is_on_screen(text, row):
            y = text.virtual_region.y + row - self.size.height // 3
            self.scroll_to(y=max(0, y), animate=False, force=True, immediate=True)

    def _is_on_screen(self, text: LongText, row: int) -> bool:
        """Return True if a row of a text is within the scrolled area."""
        top = self.scroll_offset.y
        return top <= text.virtual_region.y + row < top + self.size.height

    def _go_to(self, requested_line: str) -> None:
        """Scroll to a line of the longest text, given as a number or as a percentage."""
        number = requested_line.strip().rstrip("%").replace(",", "")
        if not number.isdecimal() or not self.texts:
            return
        text = max(self.texts, key=lambda candidate: len(candidate.text))
        if requested_line.strip().endswith("%"):
            offset = len(text.text) * min(100, int(number)) // 100
        else:
            offset = line_start(text.text, int(number))
        self._reveal(text, offset)


class LinkChip(Chip):
    """Link to a resource, which can be followed."""

    DEFAULT_CSS = "LinkChip { padding: 0; text-style: underline; }"

    def __init__(self, uri: str) -> None:
        super().__init__(one_line(uri), tooltip="Read it")
        self.uri = uri


class CallButton(Chip):
    """Button that makes the call with the entered arguments."""

    DEFAULT_CSS = """
    CallButton { dock: right; background: $primary 15%; }
    CallButton:ansi { background: $primary; color: $block-cursor-foreground; }
    CallButton:focus { text-style: bold reverse; }
    """

    def __init__(self) -> None:
        super().__init__(_call_label(ItemKind.TOOL), tooltip="Make the call with what is entered (ctrl+r)")

    def offer(self, item: CatalogueItem) -> None:
        """Set the label for an item. Hide the button if the item cannot be called."""
        self.label = _call_label(item.kind)
        self.display = item.stale or not item.problem
        self.refresh(layout=True)


def _call_label(kind: ItemKind) -> str:
    return f"▸ {_CALL_VERBS.get(kind, 'Read')} ^r"


class ResultView(Vertical):
    """Widget for an outcome, a running call, or lines of text."""

    ALLOW_MAXIMIZE = True
    BINDINGS: ClassVar[list[BindingType]] = bindings_for("result")
    DEFAULT_CSS = """
    ResultView { height: 1fr; }
    ResultView > .top { height: 1; }
    ResultView ContentSwitcher { height: 1fr; }
    ResultView ResultContent { padding: 0 1; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    ResultView ResultContent > Static { height: auto; }
    ResultView > .query { display: none; height: 1; padding: 0 1; text-style: bold; }
    ResultView .note { color: $text-muted; }
    ResultView .role { text-style: bold; color: $text-accent; margin-top: 1; }
    ResultView .error { color: $text-error; }
    ResultView .fault { color: $text-warning; }
    ResultView MarkdownH1 { margin: 0; content-align: left middle; }
    ResultView Markdown { padding: 0; margin: 0; background: transparent; }
    ResultView JsonTree.block { height: auto; max-height: 100%; }
    ResultView JsonTree.block:blur > .lines--cursor { background: transparent; text-style: none; }
    """

    content = query_one("#content", ResultContent)
    call_button = query_one(CallButton)

    @dataclass
    class Followed(Message):
        """A link to a resource was followed."""

        uri: str

    class CallRequested(Message):
        """The Call button was pressed."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: tuple[Content, ...] | None = None
        """Lines that are shown instead of an outcome."""
        self._prefers_table = True
        """True if a list of objects is initially shown as a table."""
        self._is_absent = (False, True, True, True)
        """True or False for each of `TABS`: True if the tab has no contents."""
        self._outcome: CallOutcome | None = None
        self._unparsed_outcome: CallOutcome | None = None
        """Outcome whose raw message is not parsed yet, because a large one takes a while."""

    def compose(self) -> ComposeResult:
        with Horizontal(classes="top"):
            yield TabStrip(TABS[:3])
            yield CallButton()
        with ContentSwitcher(initial="content"):
            yield ResultContent(id="content")
            yield JsonTree(id="structured")
            with ResultContent(id="absent"):
                yield Static(_NO_MESSAGE_TEXT, classes="note", markup=False)
            yield JsonTree(id="raw")
            yield RecordTable(id="table")
        yield Static(classes="query", markup=False)

    async def show_lines(self, *lines: Content) -> None:
        """Show text instead of an outcome."""
        if lines != self._lines:
            await self._replace_content([Static(line) for line in lines])
            self._load(None, {}, None, None)
            self._lines = lines

    async def show_running(self, call: LinkCall, find_code_line: Callable[[], str] = str) -> None:
        """Show a running call until something else is shown.

        `find_code_line` returns the code line at which the call is waiting.
        """
        await self._replace_content([RunningView(call, find_code_line)])
        self._load(None, {}, None, None)

    async def show(
        self,
        outcome: CallOutcome,
        marks: Mapping[Path, str],
        log_lines: Sequence[LogLine] = (),
        previous: CallOutcome | None = None,
        faults: Sequence[str] = (),
    ) -> None:
        """Show an outcome.

        `marks` has a message for each path at which the structured content violates its schema. `faults` are
        sentences about the result, shown above it. The log of the call, and the differences from the previous
        call `previous`, are shown below.
        """
        result = outcome.result
        content_blocks = [] if result is None else blocks(result)
        result_widgets = _error_lines(outcome) if result is None else _widgets(result, content_blocks)
        await self._replace_content(
            [
                *map(_fault, faults),
                *result_widgets,
                *call_log_widgets(log_lines),
                *differences(previous, outcome),
            ]
        )
        structured = None if result is None else result.get("structuredContent")
        self._load(structured, marks, outcome, table_of(structured, content_blocks))

    async def add_faults(self, faults: Sequence[str]) -> None:
        """Show more sentences about the result above it."""
        await self.content.mount_all(map(_fault, faults), before=0)

    def _page(self, tab: int) -> str:
        """Return the id of the widget to show for a tab."""
        return "absent" if self._is_absent[tab] else TABS[tab].lower()

    def focus_contents(self) -> None:
        """Focus the contents of the current tab."""
        page = self.query_one(ContentSwitcher).visible_content
        if page is None:
            return
        focusable_blocks = [block for block in page.children if block.focusable]
        has_single_tree = len(focusable_blocks) == 1 and isinstance(focusable_blocks[0], JsonTree)
        if page is self.content and has_single_tree:
            focusable_blocks[0].focus()  # a tree has a cursor and a search, which the content around it lacks
        else:
            page.focus()

    def current_text(self) -> tuple[str, str] | None:
        """Return the contents of the current tab, without control characters, and a file name for them."""
        outcome, page = self._outcome, self.query_one(ContentSwitcher).current
        if outcome is None:
            return None
        result, records = outcome.result, self.query_one(RecordTable).records
        if page == "table" and records is not None:
            return clean(as_csv(records.rows, records.columns)), "result.csv"
        if page == "content" and result is not None and (text := content_text(result)):
            return clean(text), "result.txt"
        if page == "structured" and result is not None:
            return json_escaped(pretty(result.get("structuredContent"))), "result.json"
        value = result if result is not None and page == "content" else _message(outcome)
        return json_escaped(pretty(value)), "result.json"

    def action_show_tab(self, by: int) -> None:
        """Show the next or previous tab."""
        self.query_one(TabStrip).action_step(by)

    @on(TabStrip.Picked)
    def _tab_picked(self, event: TabStrip.Picked) -> None:
        """Show the contents of the tab. If the previous contents had the focus, focus the new ones."""
        event.stop()
        if not self._is_absent[_TABLE]:
            self._prefers_table = event.index == _TABLE
        self._show_tab(event.index)

    def _show_tab(self, index: int) -> None:
        self.query_one(TabStrip).current = index
        switcher = self.query_one(ContentSwitcher)
        had_focus = switcher.has_focus_within
        switcher.current = self._page(index)
        self._show_status()
        self._read_message()
        if had_focus:
            self.focus_contents()

    @on(RecordTable.Opened)
    def _record_opened(self, event: RecordTable.Opened) -> None:
        """Show an object of the table at its position in the result."""
        event.stop()
        records = self.query_one(RecordTable).records
        if records is None:
            return
        self._show_tab(1 if records.is_structured else 0)
        selector = "#structured" if records.is_structured else "#content > JsonTree"
        trees, path = list(self.query(selector).results(JsonTree)), event.path
        if len(trees) > 1 and isinstance(path[0], int):  # each object is a separate text
            trees, path = trees[path[0] : path[0] + 1], ()
        for tree in trees:
            tree.focus()
            tree.reveal(path)

    @on(ResultContent.StatusChanged)
    def _status_changed(self, event: ResultContent.StatusChanged) -> None:
        event.stop()
        self._show_status()

    def _show_status(self) -> None:
        """Show the search, and the columns on the screen if lines are not wrapped."""
        status_line = self.query_one(".query", Static)
        is_content_shown = self.query_one(ContentSwitcher).current == "content"
        parts = (self.content.query_status, self.content.columns_text if is_content_shown else "")
        status = " · ".join(filter(None, parts))
        status_line.update(Content(status))
        status_line.display = bool(status)

    @on(Chip.Pressed)
    def _chip_pressed(self, event: Chip.Pressed) -> None:
        event.stop()
        if isinstance(event.chip, CallButton):
            self.post_message(self.CallRequested())
        if isinstance(event.chip, LinkChip):
            self.post_message(self.Followed(event.chip.uri))

    async def _replace_content(self, widgets: list[Widget]) -> None:
        self._lines = None
        content = self.content
        content.clear_query()
        await content.remove_children()
        content.forget_position()
        await content.mount_all(widgets)
        content.scroll_home(animate=False)

    def _load(
        self,
        structured: Any,
        marks: Mapping[Path, str],
        outcome: CallOutcome | None,
        records: Records | None,
    ) -> None:
        if not self.query("#structured"):
            return  # the program ended while the content was being mounted
        self.query_one("#structured", JsonTree).load(structured, marks)
        self.query_one("#raw", JsonTree).load(None)
        self.query_one(RecordTable).load(records)
        self._outcome = self._unparsed_outcome = outcome
        has_message = outcome is not None and bool(outcome.raw)
        self._is_absent = (False, structured is None, not has_message, records is None)
        absent_text = "No structured content." if has_message else _NO_MESSAGE_TEXT
        self.query_one("#absent > Static", Static).update(absent_text)
        strip, switcher = self.query_one(TabStrip), self.query_one(ContentSwitcher)
        count = f" ✗{len(marks)}" if marks else ""
        titles = [TABS[0], (TABS[1] + count) if structured is not None else "Structured –", TABS[2]]
        if records is not None:
            titles.append(f"{TABS[_TABLE]} {len(records.rows):,}")
        strip.show(titles)
        if records is not None and strip.current == 0 and self._prefers_table:
            self._show_tab(_TABLE)
        elif records is None and strip.current == _TABLE:
            self._show_tab(0)
        if switcher.current != self._page(strip.current):
            switcher.current = self._page(strip.current)
        self._show_status()
        self._read_message()

    def _read_message(self) -> None:
        """Parse and show the raw message when its tab is selected."""
        if self._unparsed_outcome is not None and self.query_one(ContentSwitcher).current == "raw":
            self.query_one("#raw", JsonTree).load(_message(self._unparsed_outcome))
            self._unparsed_outcome = None


def verdict(outcome: CallOutcome, *, is_still_running: bool = False) -> tuple[str, str]:
    """Return the outcome of a call in short form, and its colour: `✓ ok 3.1 ms 212 B`.

    `is_still_running` is True while the code of a cancelled call may still run.
    """
    size = f" {size_text(len(outcome.raw))}" if outcome.raw else ""
    time_and_size = f"{duration(outcome.elapsed_s)}{size}"
    if outcome.cancelled:
        return f"⊘ {'stopped waiting' if is_still_running else 'cancelled'} {time_and_size}", "$text-warning"
    if outcome.error is not None:
        return f"✗ protocol error {outcome.error.get('code', '')} {time_and_size}", "$text-error"
    if outcome.result is not None and outcome.result.get("isError"):
        return f"✗ tool error {time_and_size}", "$text-error"
    return f"✓ ok {time_and_size}", "$text-success"


def _message(outcome: CallOutcome) -> Any:
    try:
        return orjson.loads(outcome.raw)
    except orjson.JSONDecodeError:
        return outcome.raw.decode(errors="replace") or None


def _error_lines(outcome: CallOutcome) -> Iterator[Widget]:
    error = outcome.error or {}
    yield Static(Content(clean(str(error.get("message", "no response")))), classes="error")
    if error.get("code") in _TOKEN_HINTS:
        yield Static(Content(_TOKEN_HINTS[error["code"]]), classes="note")
    yield from older_revision_offer(str(error.get("message")))
    yield from link_widgets(error)
    if "data" in error:
        yield Static(Content("data"), classes="note")
        yield JsonTree(error["data"], classes="block")


def _widgets(result: dict[str, Any], content_blocks: Sequence[Block]) -> Iterator[Widget]:
    if result.get("isError"):
        yield Static(Content("✗ the tool reports an error"), classes="error")
        yield from older_revision_offer(content_text(result) or "")
    for block in content_blocks[:MAX_BLOCKS]:
        if block.note and block.kind is not BlockKind.IMAGE:
            yield Static(Content(one_line(block.note)), classes="note")
        yield _widget(block)
    if len(content_blocks) > MAX_BLOCKS:
        yield Static(Content(f"… {len(content_blocks) - MAX_BLOCKS:,} more blocks in Raw"), classes="note")
    if not content_blocks:
        yield Static(Content("no content"), classes="note")


def _fault(text: str) -> Static:
    return Static(Content(f"⚠ {one_line(text)}"), classes="fault")


def _markdown(text: str) -> Widget:
    from textual.widgets import Markdown  # slow to import, and not needed for the first paint

    return Markdown(text, open_links=False)


def _picture(block: Block) -> Widget:
    views = (feature.picture_view(block.encoded, block.note) for feature in features_with("picture_view"))
    return next(filter(None, views), None) or Static(Content(one_line(f"{block.note} · w saves it")))


def _widget(block: Block) -> Widget:
    match block.kind:
        case BlockKind.JSON:
            return JsonTree(block.value, classes="block")
        case BlockKind.MARKDOWN if len(block.text) <= _MAX_MARKDOWN_LENGTH:
            return _markdown(clean(block.text))
        case BlockKind.IMAGE:
            return _picture(block)
        case BlockKind.LINK:
            return LinkChip(block.text)
        case BlockKind.ROLE:
            return Static(Content(one_line(block.text)), classes="role")
        case _:
            return LongText(block.text)


_BAR_WIDTH = 20
_MAX_LOG_LINES = 200
"""Maximum number of log lines that are shown. These are the newest lines."""
_UPDATE_PERIOD_S = 0.1
_LOOKUP_PERIOD_S = 0.5
"""Seconds between two lookups of the code line at which a running call is waiting."""


class RunningView(Static):
    """Running call: its progress, the code line at which it is waiting, and its newest log lines."""

    def __init__(self, call: LinkCall, find_code_line: Callable[[], str] = str) -> None:
        """Create the view.

        `find_code_line` returns the code line at which the call is waiting. It is called twice a second.
        """
        super().__init__()
        self._call = call
        self._find_code_line = find_code_line
        self._code_line = ""
        """Code line at which the call is waiting, or "" if it is unknown."""
        self._waiting_since = time.time()
        """Unix time in seconds when the call was first seen at this code line."""
        self._shown_state: tuple[object, ...] | None = None

    def on_mount(self) -> None:
        self._show_progress()
        self.set_interval(_UPDATE_PERIOD_S, self._show_progress)
        self.set_interval(_LOOKUP_PERIOD_S, self._update_code_line)

    def _update_code_line(self) -> None:
        """Look up the code line. The first lookup is delayed, so that short calls need none."""
        code_line = self._find_code_line()
        if code_line != self._code_line:
            self._waiting_since = time.time() if self._code_line else self._call.started
            self._code_line = code_line
        self._show_progress()

    def _show_progress(self) -> None:
        progress, count = self._call.progress, len(self._call.logs)
        age = f"{time.time() - self._waiting_since:.0f} s" if self._code_line else ""
        if (progress, count, self._code_line, age) == self._shown_state:
            return
        self._shown_state = (progress, count, self._code_line, age)
        lines = [one_line(line) for line in list(self._call.logs)[-_MAX_LOG_LINES:]]
        hint = Content.styled("x, ctrl+x cancel", "$text-muted")
        waiting_line = (
            [Content.assemble((f"{age} at ", "$text-muted"), one_line(self._code_line))] if age else []
        )
        self.update(Content("\n").join([_progress(progress), *waiting_line, hint, *map(Content, lines)]))


def _progress(progress: Progress | None) -> Content:
    if progress is None:
        return Content("running …")
    if progress.message and not progress.total and abs(progress.progress) < MIN_PROGRESS:
        return Content(one_line(progress.message))
    message = Content(f"\n{one_line(progress.message)}" if progress.message else "")
    if not progress.total:
        return Content.assemble((f"{progress.progress:g}", "bold"), message)
    share = max(0.0, min(1.0, progress.progress / progress.total))
    filled_width = round(share * _BAR_WIDTH)
    bar = ("━" * filled_width, "$primary"), ("─" * (_BAR_WIDTH - filled_width), "$text-muted")
    amount_text = f" {share:.0%} ({progress.progress:g} of {progress.total:g})"
    return Content.assemble(*bar, amount_text, message)


MAX_MARKS = 50
"""Maximum number of schema violations that are marked in a value."""


def schema_marks(schema: Schema | None, value: Any) -> dict[Path, str]:
    """Return path -> violation of the schema by the value. Empty if the schema cannot be compiled."""
    if not schema or value is None:
        return {}
    marks: dict[Path, str] = {}
    for failure in schema_failures(schema, value, MAX_MARKS):
        path, message = failure.path, failure.message
        parent = _value_at(value, path[:-1])
        if path and isinstance(parent, dict) and path[-1] not in parent:
            # A missing member has no row in the tree, so its object is marked.
            path, message = path[:-1], f"{path[-1]} {message}"
        marks.setdefault(path, message)
    return marks


def _value_at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value
