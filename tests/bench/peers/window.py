"""A minimal Textual app: header, footer and a table."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widgets import DataTable, Footer, Header


class Window(App[None]):
    """Shows thirty rows."""

    BINDINGS = [("q", "quit", "Quit")]

    def compose(self) -> ComposeResult:
        yield Header()
        yield DataTable[str]()
        yield Footer()

    def on_mount(self) -> None:
        """Fill the table."""
        table = self.query_one(DataTable)
        table.add_columns("number", "name", "what")
        for number in range(30):
            table.add_row(str(number), f"row-{number}", "something to read")


if __name__ == "__main__":
    Window().run()
