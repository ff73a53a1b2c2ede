"""A line at the bottom of a widget into which a search or a filter is typed, without a field of its own."""

from __future__ import annotations

from textual import events

from mcpdesk.tui.widgets.fields import character_of


class TypedQuery:
    """The keys of such a line; a widget inherits from it, before its other bases.

    Call `begin_query` to begin. Enter keeps what was typed, escape drops it, also later. While it is typed
    into, letters are text: the footer names them for nothing else, and no question opens by itself.
    """

    query_text = ""
    """What was typed."""
    query_sign = "/"
    """What stands before it."""
    is_typing = False

    def query_changed(self) -> None:
        """What was typed is another now."""

    def query_kept(self) -> None:
        """Enter was pressed, or the query was dropped: `query_text` is empty then."""

    @property
    def has_query(self) -> bool:
        """Whether the line is to be seen."""
        return self.is_typing or bool(self.query_text)

    @property
    def query_line(self) -> str:
        """The line, with a cursor while it is typed into; not cleaned."""
        return f"{self.query_sign}{self.query_text}{'▏' if self.is_typing else ''}"

    def begin_query(self, sign: str = "/") -> None:
        """Take the keys that are typed from now on."""
        self.query_sign, self.is_typing, self.query_text = sign, True, ""
        self.query_changed()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Whether a key is text for the line."""
        text = character or character_of(key)
        return self.is_typing and text is not None and text.isprintable()

    def on_paste(self, event: events.Paste) -> None:
        """Add the first line of a paste."""
        if self.is_typing:
            event.stop()
            event.prevent_default()
            self.query_text += event.text.partition("\n")[0].rstrip("\r")
            self.query_changed()

    def on_key(self, event: events.Key) -> None:
        """Edit the line while it is typed into; escape ends it."""
        if not self.is_typing and not (event.key == "escape" and self.query_text):
            return
        if event.key in ("enter", "escape"):
            self.is_typing = False
            if event.key == "escape":
                self.query_text = ""
            self.query_kept()
        elif event.key == "backspace" or event.is_printable:
            is_back = event.key == "backspace"
            self.query_text = self.query_text[:-1] if is_back else self.query_text + (event.character or "")
            self.query_changed()
        else:
            return
        event.stop()
        event.prevent_default()
