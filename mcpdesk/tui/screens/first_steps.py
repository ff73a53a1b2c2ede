"""Help page with three exercises on the bundled sample. All keys come from the table of actions."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content

from mcpdesk.tui.actions import SCREENS, key_or_palette
from mcpdesk.tui.widgets.menu import PageDialog


class FirstStepsScreen(PageDialog):
    """Exercises that teach the keys in five minutes."""

    def __init__(self) -> None:
        super().__init__("In five minutes")

    def page(self) -> Content:
        """Return the exercises. Keys are highlighted."""
        lines: list[Content] = []
        for title, steps in _exercises():
            lines += [Content.styled(title, "bold"), *steps, Content("")]
        return Content("\n").join(lines[:-1])


def _exercises() -> Iterator[tuple[str, list[Content]]]:
    workbench, traffic, logs = (SCREENS[name].id for name in ("workbench", "traffic", "logs"))
    yield (
        "These exercises use the bundled sample: start `mcpdesk` without a target.",
        [_step("Close this page with ", "esc", ". The palette (", "app.palette", ") opens it again.")],
    )
    yield (
        "1  Call a tool, and find out why it failed",
        [
            _step("", "workbench.filter", " filters the catalogue: type crash, then press ", "enter", "."),
            _step("", "workbench.call", " calls the selected tool. The result shows the error and its line."),
            _step("", "workbench.edit_source", " opens the code at this line in your editor."),
            _step("", logs, " shows the log with the traceback, ", workbench, " comes back."),
        ],
    )
    yield (
        "2  Look at its traffic",
        [
            _step("", traffic, " shows every message. Your call is one of the last lines."),
            _step(
                "", "enter", " opens the call: the request, the response and the time. ", "esc", " goes back."
            ),
            _step("", "traffic.filter", " filters: type status:error to see the calls that failed."),
        ],
    )
    yield (
        "3  Answer a question",
        [
            _step(
                "Go back with ",
                workbench,
                ", filter for tea, and call choose-tea with ",
                "workbench.call",
                ".",
            ),
            _step("The tool waits, and its question opens. Later, ", "main.open_question", " opens it."),
            _step("Choose an answer with the arrow keys, and press ", "enter", ". The tool then continues."),
        ],
    )
    yield (
        "Next",
        [
            _step("", "app.show_help", " lists the keys of the focused pane."),
            _step("", "main.add_server", " adds a server of your own: a folder, a URL, a program or a file."),
        ],
    )


def _step(*parts: str) -> Content:
    """Return a line. Every second part is the id of an action, or a fixed key."""
    contents = [Content("   ")]
    for index, part in enumerate(parts):
        is_key = index % 2 == 1
        text = key_or_palette(part) if is_key and "." in part else part
        contents.append(Content.styled(text, "bold $text-primary") if is_key else Content(text))
    return Content("").join(contents)
