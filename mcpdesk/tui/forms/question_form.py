"""Form that a server asks to fill in: all fields on one page, with faults beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Input, Static, TextArea

from mcpdesk.inbox.question import Page
from mcpdesk.link.values import SchemaFailure
from mcpdesk.protocol.catalogue.schema_shapes import Schema
from mcpdesk.tui.forms.field_widgets import CheckList
from mcpdesk.tui.forms.form import Form
from mcpdesk.tui.forms.form_model import ChoiceNode, MultiChoiceNode, Node, ObjectNode, TextNode, node_for
from mcpdesk.tui.forms.question_page import AnswerDraft
from mcpdesk.tui.forms.schema_fields import MAX_ONE_LINE_LENGTH, form_for
from mcpdesk.tui.render.safe_text import clean
from mcpdesk.tui.widgets.choice_box import ChoiceBox
from mcpdesk.tui.widgets.text_field import TextField

EXAMPLE_FORMATS = ("date", "date-time")
"""Formats for which a field shows an example."""


HEAD_MARGIN_ROWS = 1
"""Rows between the question and its fields."""


class QuestionForm(Vertical):
    """Fields of a question that is a form. Each change is stored in the drafts of its pages."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "next_field", "Next field", show=False, priority=True),
        Binding("ctrl+s", "screen.answer_form", "Answer", show=False, priority=True),
        Binding("escape", "leave", "Leave the field", show=False),
    ]
    DEFAULT_CSS = """
    QuestionForm { height: auto; }
    QuestionForm > .head { height: auto; padding: 0 1; margin-bottom: 1; scrollbar-size-vertical: 1; }
    QuestionForm > .head > Static { height: auto; text-style: bold; }
    QuestionForm > Form { height: auto; }
    QuestionForm FormPart.-hinted > .note { display: block; }
    """

    class Changed(Message):
        """An answer was changed."""

    class Submitted(Message):
        """Enter was pressed in the last field."""

    def __init__(self, drafts: Sequence[AnswerDraft]) -> None:
        super().__init__()
        self._drafts = {str(number): draft for number, draft in enumerate(drafts)}
        self._node = _form_node(self._drafts)
        self._max_rows = 0
        question = Static(clean(drafts[0].page.question), markup=False)
        self._head = VerticalScroll(question, classes="head", can_focus=False)
        self.form = Form(self._node)

    def compose(self) -> ComposeResult:
        yield self._head
        yield self.form

    def on_mount(self) -> None:
        self.form.focus_first()

    @property
    def draft(self) -> AnswerDraft:
        """First draft with a fault. If no draft has a fault, the first draft."""
        drafts = list(self._drafts.values())
        return next((draft for draft in drafts if draft.problem), drafts[0])

    @property
    def is_writing(self) -> bool:
        """True if letters enter text, because a text field has the focus."""
        return self.has_focus_within and isinstance(self.screen.focused, Input | TextArea)

    @property
    def would_choose(self) -> bool:
        """Always False, because enter moves to the next field."""
        return False

    @property
    def is_at_end(self) -> bool:
        """True if enter sends the answer, because the last field of the form, or no field, has the focus."""
        fields = [widget for widget in self.screen.focus_chain if self in widget.ancestors]
        return not self.has_focus_within or fields[-1:] == [self.screen.focused]

    def fit(self, rows: int) -> None:
        """Limit the height to `rows`. The question above the fields takes at most a third of it."""
        self._max_rows = self.styles.max_height = rows
        self._head.styles.max_height = max(1, rows // 3)
        self.form.fit_into(max(1, rows - self._head.outer_size.height - HEAD_MARGIN_ROWS))

    def on_resize(self) -> None:
        """Adjust the heights again when the height of the question is known."""
        if self._max_rows:
            self.call_after_refresh(self.fit, self._max_rows)

    def scroll_by(self, screens: int) -> None:
        """Scroll the fields."""
        self.form.scroll_relative(y=screens * max(1, self.form.size.height - 1), animate=False)

    def move(self, by: int) -> None:
        """Focus the next or previous field. If no field has the focus, focus the first one."""
        if not self.has_focus_within:
            self.form.focus_first()
        elif by > 0:
            self.screen.focus_next()
        else:
            self.screen.focus_previous()

    def choose(self, index: int | None = None) -> None:
        """Select the choice with this index in the focused field. The index comes from a typed digit."""
        field = self.screen.focused
        if index is not None and self.has_focus_within:
            if isinstance(field, ChoiceBox) and index < field.count:
                field.pick(index)
            elif isinstance(field, CheckList) and index < field.row_count:
                field.choose_row(index)

    def leave_words(self) -> None:
        """Remove the focus from the field, so that letters are keys again."""
        self.screen.set_focus(None)

    async def action_leave(self) -> None:
        """If a text field has the focus, remove the focus. Otherwise postpone the question."""
        if self.is_writing:
            self.leave_words()
        else:
            await self.run_action("screen.later")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the key enter in a text field of several lines, where enter begins a new line."""
        return action != "next_field" or not isinstance(self.screen.focused, TextField)

    def action_next_field(self) -> None:
        """Focus the next field. If the last field has the focus, send the answer."""
        if self.is_at_end:
            self.post_message(self.Submitted())
        else:
            self.screen.focus_next()

    def complain(self) -> int:
        """Show all faults beside their fields, and focus the first fault. Return the number of faults."""
        failures = list(self._failures())
        self.form.show_failures(failures, show_all=True)
        if failures:
            self.form.focus_failure()
        return len(failures)

    @on(Form.Changed)
    def _changed(self, event: Form.Changed) -> None:
        event.stop()
        for key, node in self._node.members.items():
            _store_in_draft(node, self._drafts[key])
        self.form.show_failures(self._failures())
        self.post_message(self.Changed())

    def _failures(self) -> Iterator[SchemaFailure]:
        for key, draft in self._drafts.items():
            if draft.problem:
                yield SchemaFailure((key,), draft.problem)


def _form_node(drafts: dict[str, AnswerDraft]) -> ObjectNode:
    """Return the node with the fields of all pages in order, filled with the answers so far."""
    shapes = {key: _shape(draft.page) for key, draft in drafts.items()}
    required = [key for key, draft in drafts.items() if draft.page.is_required]
    root: Schema = {
        "type": "object", "properties": shapes, "required": required, "additionalProperties": False
    }  # fmt: skip
    node = node_for(form_for(root))
    assert isinstance(node, ObjectNode)
    node.labels = {key: draft.page.header or draft.page.question for key, draft in drafts.items()}
    node.members = {key: node.members[key] for key in drafts}
    for key, member in node.members.items():
        _fill(member, drafts[key])
    return node


def _shape(page: Page) -> Schema:
    """Return the schema of a page's field. The page's limits are only described; the inbox checks them."""
    shape: Schema = {"title": page.header, "description": page.detail.replace("\n", " · ")}
    labels = [option.label for option in page.options]
    if labels and page.multi_select:
        return shape | {"type": "array", "items": {"enum": labels}}
    if labels:
        return shape | {"enum": labels}
    type_name, format_name = page.rules.get("type", "string"), page.rules.get("format")
    max_length = page.rules.get("maxLength", 0)
    if page.is_long or (isinstance(max_length, int) and max_length > MAX_ONE_LINE_LENGTH):
        shape["contentMediaType"] = "text/plain"
    return shape | {"type": type_name} | ({"format": format_name} if format_name in EXAMPLE_FORMATS else {})


def _fill(node: Node, draft: AnswerDraft) -> None:
    if isinstance(node, MultiChoiceNode):
        node.pick(frozenset(draft.selected_indexes))
    elif isinstance(node, ChoiceNode):
        node.pick(next(iter(draft.selected_indexes), None))
    elif isinstance(node, TextNode) and draft.other:
        node.edit(draft.other)


def _store_in_draft(node: Node, draft: AnswerDraft) -> None:
    if isinstance(node, MultiChoiceNode):
        draft.selected_indexes = set(node.selected_indexes)
    elif isinstance(node, ChoiceNode):
        draft.selected_indexes = set() if node.index is None else {node.index}
    elif isinstance(node, TextNode):
        draft.write(node.text)
