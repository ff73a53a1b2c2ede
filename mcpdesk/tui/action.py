"""One thing a person can do, as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a person can do. `name` may carry arguments: `show_screen('traffic')`."""

    name: str
    keys: str
    """Textual key names separated by commas, `ctrl+p` or `question_mark,f1`; the first is shown."""
    title: str
    """Two or three words, imperative: footer and palette."""
    group: str
    """Heading in the palette and on the help screen."""
    scope: str
    help: str = ""
    """One sentence for the help screen, where the title does not say it all."""
    footer: bool = True
    """Whether the footer may show it; it is in the palette and the help in any case."""
    priority: bool = False
    """Taken before the focused widget sees the key. Only for keys nobody types."""

    @property
    def id(self) -> str:
        """Unique name, `traffic.copy`; also the id of its bindings."""
        return f"{self.scope}.{self.name}"

    @property
    def method(self) -> str:
        """Name of the method the scope's widget implements."""
        return "action_" + self.name.partition("(")[0]
