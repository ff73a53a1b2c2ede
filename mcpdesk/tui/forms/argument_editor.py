"""A value edited as JSON text, with the place where it stops being JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import ContentSwitcher, Label, TextArea

from mcpdesk.link.values import Failure
from mcpdesk.plain_text import json_escaped
from mcpdesk.tui.forms.field_widgets import TextPart
from mcpdesk.tui.forms.form import Form
from mcpdesk.tui.render.json_text import json_problem, path_text, pretty
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.fields import TextField
from mcpdesk.tui.widgets.tabs import TabStrip
from mcpdesk.tui.workbench.drafts import Draft
from mcpdesk.tui.workbench.item_requests import Ask

MAX_HIGHLIGHTED = 32_000
"""Characters above which highlighting would cost more than a key press may take."""


class JsonEditor(Vertical):
    """A text area and a line that says what is wrong."""

    DEFAULT_CSS = """
    JsonEditor { height: 1fr; }
    JsonEditor > TextArea { height: 1fr; padding: 0; background: transparent; }
    JsonEditor > .problem {
        width: 1fr; height: auto; max-height: 3; color: $text-error; padding: 0 1; display: none;
    }
    JsonEditor > .problem.-shown { display: block; }
    """

    class Changed(Message):
        """The text is another one now."""

    def compose(self) -> ComposeResult:
        """Editor and problem line."""
        yield TextField(
            compact=True, show_line_numbers=True, tab_behavior="indent", highlight_cursor_line=False
        )
        yield Label("", classes="problem", markup=False)

    @property
    def area(self) -> TextField:
        """The text area."""
        return self.query_one(TextField)

    @property
    def text(self) -> str:
        """What is edited, JSON or not."""
        return self.area.true_text

    @property
    def problem(self) -> str:
        """Where the text stops being JSON; empty when it is JSON."""
        return json_problem(self.text) if self.text.strip() else ""

    def load(self, text: str) -> None:
        """Edit a text; control characters are shown as JSON escapes, which mean the same."""
        text = json_escaped(text)
        area = self.area
        area.language = _language(text)
        area.load_text(text)
        self.complain("")

    def value(self) -> Any:
        """What the text says; an empty text is an empty object.

        Raises: ValueError with line and column when it is not JSON.
        """
        if self.problem:
            raise ValueError(self.problem)
        return json.loads(self.text) if self.text.strip() else {}

    def complain(self, message: str) -> None:
        """Show what is wrong; nothing when empty."""
        label = self.query_one(".problem", Label)
        label.update(Content(f"✗ {one_line(message)}"))
        label.set_class(bool(message), "-shown")

    @on(TextArea.Changed)
    def changed(self, event: TextArea.Changed) -> None:
        """Pass it on, and drop highlighting when the text has grown too long."""
        event.stop()
        if event.text_area.language and len(event.text_area.text) > MAX_HIGHLIGHTED:
            event.text_area.language = None
        self.post_message(self.Changed())


def _language(text: str) -> str | None:
    has_grammar = find_spec("tree_sitter") is not None and find_spec("tree_sitter_json") is not None
    return "json" if has_grammar and len(text) <= MAX_HIGHLIGHTED else None


_VIEWS = ("form", "json")
SHOWN = 8
"""Suggestions that are told at once."""


class Arguments(Vertical):
    """Edits one draft. `check` is asked about a value whenever it changed, `suggest` for suggestions."""

    DEFAULT_CSS = """
    Arguments > ContentSwitcher { height: 1fr; }
    Arguments > .hint { height: 1; width: 1fr; padding: 0 1; color: $text-muted; }
    """

    class Submitted(Message):
        """Enter was pressed in the last field."""

    class Swapped(Message):
        """Form and JSON changed places."""

    def __init__(
        self,
        check: Callable[[Draft, Any], Sequence[Failure]],
        suggest: Callable[[Draft], Ask | None] = lambda draft: None,
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._check = check
        self._suggest = suggest
        self.draft: Draft | None = None

    def compose(self) -> ComposeResult:
        """Which view, the views, and the hint."""
        yield TabStrip(("Form", "JSON"))
        with ContentSwitcher(initial="form"):
            yield Form(id="form")
            yield JsonEditor(id="json")
        yield Label("", classes="hint", markup=False)

    @property
    def is_json(self) -> bool:
        """Whether the arguments are edited as JSON."""
        return self.draft is not None and self.draft.text is not None

    @property
    def has_any(self) -> bool:
        """Whether there is anything to enter, or something is being entered as JSON."""
        return self.is_json or self.form.has_fields

    @property
    def form(self) -> Form:
        """The form."""
        return self.query_one(Form)

    @property
    def editor(self) -> JsonEditor:
        """The JSON editor."""
        return self.query_one(JsonEditor)

    async def load(self, draft: Draft) -> None:
        """Edit another draft."""
        self.draft = draft
        self._hint("")
        await self.form.load(draft.node, self._suggest(draft))
        if draft.text is not None:
            self.editor.load(draft.text)
        self._bring_up()

    async def put(self, value: Any) -> None:
        """Edit this value; as JSON where the form cannot show it."""
        draft = self.draft
        if draft is None:
            return
        fits = draft.take(value)
        await self.form.load(draft.node, self._suggest(draft))
        if draft.text is not None or not fits:
            self._edit_json(draft, value)
        self._bring_up()

    def value(self) -> Any:
        """The arguments as they stand.

        Raises: ValueError when something typed is no JSON.
        """
        if self.is_json:
            return self.editor.value()
        problems = self.form.problems()
        if problems:
            raise ValueError(f"{path_text(problems[0].path)}: {problems[0].message}")
        return self.draft.node.value() if self.draft else {}

    async def toggle(self) -> None:
        """Swap form and JSON; what the form cannot show stays JSON."""
        draft = self.draft
        if draft is None:
            return
        if draft.text is None:
            self._edit_json(draft, draft.node.value())
        elif self.editor.problem:
            self.editor.complain(self.editor.problem)
            return
        elif not draft.take(self.editor.value()):
            self.editor.complain("the form cannot show all of this; it stays JSON")
            return
        else:
            draft.text = None
            await self.form.load(draft.node, self._suggest(draft))
        self._bring_up()
        self.post_message(self.Swapped())
        self.focus_first()

    def focus_first(self) -> bool:
        """Go to where something can be entered; False when there is nothing."""
        if self.is_json:
            self.editor.area.focus()
            return True
        return self.form.focus_first()

    def complain(self, failures: Sequence[Failure], go_there: bool = True) -> None:
        """Show all failures, and go to the first."""
        if self.is_json:
            self.editor.complain(_told(failures))
        else:
            self.form.show_failures(failures, show_all=True)
            if go_there:
                self.form.focus_failure()

    @on(Form.Changed)
    @on(JsonEditor.Changed)
    def revalidate(self) -> None:
        """Check what is entered as it is entered."""
        draft = self.draft
        if draft is None:
            return
        if draft.text is None:
            checked = self._check(draft, draft.node.value())
            self.form.show_failures([*self.form.problems(), *checked])
            return
        draft.text = self.editor.text
        if self.editor.problem:
            self.editor.complain(self.editor.problem)
        else:
            self.editor.complain(_told(self._check(draft, self.editor.value())))

    @on(Form.Submitted)
    def submit(self) -> None:
        """Pass it on."""
        self.post_message(self.Submitted())

    @on(Form.Hinted)
    def hint(self, event: Form.Hinted) -> None:
        """Tell about the field in focus, unless every field tells about itself."""
        self._hint("" if self.form.has_class("-roomy") else event.text)

    @on(TextPart.Suggested)
    def suggested(self, event: TextPart.Suggested) -> None:
        """Tell what the server suggests; the first one that fits stands behind the cursor already."""
        event.stop()
        if not event.values:
            self._hint("")
        else:
            shown = " · ".join(one_line(value, 30) for value in event.values[:SHOWN])
            more = f" · {len(event.values) - SHOWN} more" if len(event.values) > SHOWN else ""
            self._hint(f"→ takes, F4 lists: {shown}{more}")

    @on(TabStrip.Picked)
    async def pick(self, event: TabStrip.Picked) -> None:
        """A click on a tab swaps the views; the strip goes back when that fails."""
        event.stop()
        await self.toggle()
        self._bring_up()

    def _edit_json(self, draft: Draft, value: Any) -> None:
        draft.text = pretty(value)
        self.editor.load(draft.text)

    def _bring_up(self) -> None:
        self.query_one(ContentSwitcher).current = _VIEWS[self.is_json]
        self.query_one(TabStrip).current = int(self.is_json)

    def _hint(self, text: str) -> None:
        self.query_one(".hint", Label).update(Content(text))


def _told(failures: Sequence[Failure]) -> str:
    if not failures:
        return ""
    more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    return f"{path_text(failures[0].path)}: {failures[0].message}{more}"
