"""Line for a search or a filter at the bottom of a widget, which draws the line itself."""

from __future__ import annotations

from textual import events
from textual.widget import Widget

from mcpdesk.tui.widgets.fields import MAX_SEARCH_LENGTH, character_of, cut_message


class TypedQuery:
    """Mixin for a widget with a line for a search or filter. It must be the first base class.

    Call `begin_query` to begin. Enter keeps the typed text. Escape clears the text, also after Enter. During
    typing, letters are text: the footer shows no other bindings for them, and no question opens
    automatically.
    """

    query_text = ""
    """Typed text."""
    query_sign = "/"
    """Sign before the text."""
    is_typing = False

    def query_changed(self) -> None:
        """Handle a change of the typed text."""

    def query_ended(self) -> None:
        """Handle Enter or escape, which end the typing. After escape, `query_text` is empty."""

    @property
    def has_query(self) -> bool:
        """True if the line is visible."""
        return self.is_typing or bool(self.query_text)

    @property
    def query_line(self) -> str:
        """Text of the line, with a cursor during typing. The text may contain control characters."""
        return f"{self.query_sign}{self.query_text}{'▏' if self.is_typing else ''}"

    def begin_query(self, sign: str = "/") -> None:
        """Begin typing. Until Enter or escape, typed letters are text."""
        self.query_sign, self.is_typing, self.query_text = sign, True, ""
        self.query_changed()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Return True if a key is text for the line."""
        text = character or character_of(key)
        return self.is_typing and text is not None and text.isprintable()

    def on_paste(self, event: events.Paste) -> None:
        """Append the first line of a paste."""
        if self.is_typing:
            event.stop()
            event.prevent_default()
            line = event.text.partition("\n")[0].rstrip("\r")
            self._add(line)
            self.query_changed()

    def _add(self, text: str) -> None:
        """Append a text up to the maximum length, and report the rest."""
        max_added = MAX_SEARCH_LENGTH - len(self.query_text)
        self.query_text += text[:max_added]
        if len(text) > max_added and isinstance(self, Widget):
            self.notify(cut_message(len(text) - max_added), severity="warning", markup=False)

    def on_key(self, event: events.Key) -> None:
        """Edit the line during typing. Escape ends it."""
        if not self.is_typing and not (event.key == "escape" and self.query_text):
            return
        if event.key in ("enter", "escape"):
            self.is_typing = False
            if event.key == "escape":
                self.query_text = ""
            self.query_ended()
        elif event.key == "backspace" or event.is_printable:
            if event.key == "backspace":
                self.query_text = self.query_text[:-1]
            else:
                self._add(event.character or "")
            self.query_changed()
        else:
            return
        event.stop()
        event.prevent_default()
