"""Editor of an item's arguments, as a form or as JSON, with a line of hints below."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.widgets import ContentSwitcher, Label, TextArea
from textual.widgets.text_area import LanguageDoesNotExist

from mcpdesk.link.values import SchemaFailure
from mcpdesk.plain_text import json_escaped
from mcpdesk.tui.forms.field_widgets import TextPart
from mcpdesk.tui.forms.form import Form
from mcpdesk.tui.render.json_text import json_problem, path_text, pretty
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.choice_box import TabStrip
from mcpdesk.tui.widgets.text_field import TextField
from mcpdesk.tui.workbench.drafts import Draft

MAX_HIGHLIGHTED_CHARACTERS = 32_000
"""Maximum number of characters that are highlighted. Highlighting a longer text would slow down typing."""
ROWS_AROUND_FORM = 3
"""Number of rows around a form of fitted height: the title, the tabs and the hint."""
MAX_SHOWN_SUGGESTIONS = 8
"""Maximum number of suggestions in the line of hints."""


GRAMMAR_DISTRIBUTIONS = ("tree-sitter", "tree-sitter-json")
"""Distributions of the extra `syntax`."""


@cache
def installed_grammar() -> str:
    """Return the installed distributions of the extra `syntax`, with versions, or "" if none is installed."""
    distributions: list[str] = []
    for name in GRAMMAR_DISTRIBUTIONS:
        try:
            distributions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(distributions)


def _form_rows(max_rows: int | None) -> int | None:
    """Return the maximum number of rows of the form in an editor of `max_rows`. None means no maximum."""
    return None if max_rows is None else max(1, max_rows - ROWS_AROUND_FORM)


class JsonEditor(Vertical):
    """Text area for JSON, and a line with the syntax error."""

    DEFAULT_CSS = """
    JsonEditor { height: 1fr; }
    JsonEditor > TextArea { height: 1fr; padding: 0; background: transparent; }
    JsonEditor > .problem {
        width: 1fr; height: auto; max-height: 3; color: $text-error; padding: 0 1; display: none;
    }
    JsonEditor > .problem.-shown { display: block; }
    """
    area = query_one(TextField)
    _is_grammar_broken = False
    """True if the grammar is installed but unusable, and the person was notified."""

    def compose(self) -> ComposeResult:
        yield TextField(
            compact=True, show_line_numbers=True, tab_behavior="indent", highlight_cursor_line=False
        )
        yield Label("", classes="problem", markup=False)

    @property
    def problem(self) -> str:
        """Location of the JSON syntax error, or "" if the text is valid."""
        text = self.area.entered_text
        return json_problem(text) if text.strip() else ""

    def load(self, text: str) -> None:
        """Replace the edited text. Control characters become equivalent JSON escapes."""
        text = json_escaped(text)
        self._highlight(
            bool(installed_grammar())
            and not self._is_grammar_broken
            and len(text) <= MAX_HIGHLIGHTED_CHARACTERS
        )
        self.area.load_text(text)
        self.complain("")

    def _highlight(self, is_enabled: bool) -> None:
        """Switch highlighting on or off. If the installed grammar does not work, notify the person once."""
        reason = "it cannot be loaded"
        try:
            self.area.language = "json" if is_enabled else None
        except (LanguageDoesNotExist, ImportError, OSError, ValueError) as error:
            reason = str(error).partition("\n")[0] or reason
        if not is_enabled or self.area.is_syntax_aware:
            return
        self._is_grammar_broken, self.area.language = True, None
        message = f"JSON is not highlighted: the extra `syntax` ({installed_grammar()}) is broken: {reason}"
        hint = "Install it again: pip install --force-reinstall 'mcpdesk[syntax]'"
        self.app.notify(one_line(f"{message}. {hint}"), severity="warning", markup=False)

    def value(self) -> Any:
        """Return the value of the text. An empty text means an empty object.

        Raises: ValueError with line and column if the text is not JSON.
        """
        if self.problem:
            raise ValueError(self.problem)
        text = self.area.entered_text
        return json.loads(text) if text.strip() else {}

    def complain(self, message: str) -> None:
        """Show an error. An empty message hides the line."""
        label = self.query_one(".problem", Label)
        label.update(Content(f"✗ {one_line(message)}"))
        label.set_class(bool(message), "-shown")

    def recheck(self) -> None:
        """If an error is shown, replace it by the current syntax error, or hide it."""
        if self.query_one(".problem", Label).has_class("-shown"):
            self.complain(self.problem)

    @on(TextArea.Changed)
    def _stop_highlighting(self, event: TextArea.Changed) -> None:
        """Stop highlighting when the text becomes too long."""
        if event.text_area.language and len(event.text_area.text) > MAX_HIGHLIGHTED_CHARACTERS:
            event.text_area.language = None


class Arguments(Vertical):
    """Editor of the arguments of a draft, which validates them after each change.

    Hidden for items without arguments.
    """

    DEFAULT_CSS = """
    Arguments > ContentSwitcher { height: 1fr; }
    Arguments > .hint { height: 1; width: 1fr; padding: 0 1; color: $text-muted;
        text-wrap: nowrap; text-overflow: ellipsis; }
    Arguments.-json > .hint { display: none; }
    Arguments.-fitted > ContentSwitcher { height: auto; }
    Arguments.-fitted.-json > ContentSwitcher { height: 1fr; }
    Arguments.-fitted Form { height: auto; }
    Arguments.-fitted.-hints > .hint { display: none; }
    Arguments.-warned > .hint { display: block; color: $text-warning; }
    """
    form = query_one(Form)
    editor = query_one(JsonEditor)
    draft: Draft | None = None
    _warning = ""
    _hint = ""

    class Submitted(Message):
        """Enter was pressed in the last field."""

    def compose(self) -> ComposeResult:
        yield TabStrip(("Form", "JSON"))
        with ContentSwitcher(initial="form"):
            yield Form(id="form")
            yield JsonEditor(id="json")
        yield Label("", classes="hint", markup=False)

    def fit_form(self, max_rows: int | None, max_rows_with_hints: int | None = None) -> None:
        """Set the height to the height of the form, but at most `max_rows`. If None, the parent sets the
        height.

        If the form with all hints has more than `max_rows_with_hints`, only the hint of the focused field is
        shown.
        """
        self.set_class(max_rows is not None, "-fitted")
        self.styles.max_height = max_rows
        if max_rows is not None:
            self.styles.height = None
        self.form.fit_into(_form_rows(max_rows), _form_rows(max_rows_with_hints))
        self.set_class(self.form.has_class("-roomy"), "-hints")

    @property
    def is_json(self) -> bool:
        """True if the arguments are edited as JSON."""
        return self.draft is not None and self.draft.text is not None

    async def load(self, draft: Draft) -> None:
        """Edit another draft."""
        self.draft = draft
        self.warn("")
        self._show_hint("")
        await self.form.load(draft.node, draft.suggester)
        if draft.text is not None:
            self.editor.load(draft.text)
        self._show_view()

    async def put(self, value: Any) -> None:
        """Edit this value as arguments. Use the JSON editor if the form cannot show the value."""
        draft = self.draft
        if draft is None:
            return
        if not draft.fill_form(value) or draft.text is not None:
            draft.text = pretty(value)
        await self.load(draft)

    def value(self) -> Any:
        """Return the entered arguments. Raises: ValueError if a text that must be JSON is not valid JSON."""
        if self.is_json:
            return self.editor.value()
        problems = self.form.problems()
        if problems:
            raise ValueError(f"{path_text(problems[0].path)}: {problems[0].message}")
        return self.draft.node.value() if self.draft else {}

    async def toggle(self) -> None:
        """Toggle between form and JSON. A value that the form cannot show is still edited as JSON."""
        draft = self.draft
        if draft is None:
            return
        if draft.text is None:
            draft.text = pretty(draft.node.value())
            self.editor.load(draft.text)
            self._show_view()
        elif self.editor.problem:
            self.editor.complain(self.editor.problem)
            return
        elif not draft.fill_form(self.editor.value()):
            self.editor.complain("the form cannot show these arguments; edit them as JSON")
            return
        else:
            draft.text = None
            await self.load(draft)
        self.focus_first()

    def focus_first(self) -> bool:
        """Focus the first input. Return False if no widget can have the focus."""
        if self.is_json:
            self.editor.area.focus()
            return True
        return self.form.focus_first()

    def complain(self, failures: Sequence[SchemaFailure]) -> None:
        """Show all failures, and focus the first."""
        if self.is_json:
            self.editor.complain(_summary(failures))
        else:
            self.form.show_failures(failures, show_all=True)
            self.form.focus_failure()

    def warn(self, text: str) -> None:
        """Show a warning about the entered arguments until they change. An empty text hides it."""
        self._warning = text
        self.set_class(bool(text), "-warned")
        self._show_hint(self._hint)

    @on(Form.Changed)
    @on(TextArea.Changed)
    def revalidate(self) -> None:
        """Validate the entered arguments, and show the failures."""
        draft = self.draft
        if draft is None:
            return
        self.warn("")
        if draft.text is None:
            self.form.show_failures([*self.form.problems(), *draft.failures(draft.node.value())])
            return
        draft.text = self.editor.area.entered_text
        syntax_error = self.editor.problem
        self.editor.complain(syntax_error or _summary(draft.failures(self.editor.value())))

    @on(Form.Submitted)
    def _submitted(self) -> None:
        self.post_message(self.Submitted())

    @on(Form.HintChanged)
    def _hint_changed(self, event: Form.HintChanged) -> None:
        """Show the hint of the focused field, unless every field shows its own hint."""
        self._show_hint("" if self.form.has_class("-roomy") else event.text)

    @on(Form.PositionChanged)
    def _show_position(self, event: Form.PositionChanged) -> None:
        """Show the position of the focused field if not all fields are visible."""
        event.stop()
        self.border_title = f"Arguments ─ {event.text}" if event.text else "Arguments"

    @on(TextPart.Suggested)
    def _suggested(self, event: TextPart.Suggested) -> None:
        """Show the suggestions in the line of hints. The field itself shows only the first suggestion that
        matches.
        """
        event.stop()
        shown_values = " · ".join(one_line(value, 30) for value in event.values[:MAX_SHOWN_SUGGESTIONS])
        hidden_count = len(event.values) - MAX_SHOWN_SUGGESTIONS
        hidden_note = f" · {hidden_count} more" if hidden_count > 0 else ""
        self._show_hint(f"→ takes, F4 lists: {shown_values}{hidden_note}" if shown_values else "")

    @on(TabStrip.Picked)
    async def _tab_picked(self, event: TabStrip.Picked) -> None:
        """Toggle between form and JSON. If the form cannot show the JSON, the tab JSON stays selected."""
        event.stop()
        await self.toggle()
        self._show_view()

    def _show_view(self) -> None:
        self.query_one(ContentSwitcher).current = "json" if self.is_json else "form"
        self.query_one(TabStrip).current = int(self.is_json)
        self.set_class(self.is_json, "-json")
        self.display = self.is_json or self.form.has_fields

    def _show_hint(self, text: str) -> None:
        self._hint = text
        self.query_one(".hint", Label).update(Content(f"! {self._warning}" if self._warning else text))


def _summary(failures: Sequence[SchemaFailure]) -> str:
    if not failures:
        return ""
    count_note = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    return f"{path_text(failures[0].path)}: {failures[0].message}{count_note}"
