"""What an empty catalogue teaches: how to add the first tool."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from mcpdesk.link.values import ServerView
from mcpdesk.tui.render.text import clean

_EXAMPLE = '''\
async def hello(name: str, times: int = 1) -> str:
    """Greet somebody."""
    return f"Hello, {name}! " * times
'''


class Lesson(Static):
    """A few lines and a file to save."""

    def teach(self, server: ServerView) -> None:
        """Speak about this server's folder."""
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
