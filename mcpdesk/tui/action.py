"""Row of the table of actions."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Action:
    """One action of the screen. `name` may have arguments: `show_screen('traffic')`."""

    name: str
    keys: str
    """Textual key names separated by commas: `ctrl+p` or `question_mark,f1`. The footer shows the first
    key. `g r` is a sequence of two keys. Empty if only the action menu and the palette have the action."""
    title: str
    """Two or three words, beginning with a verb, for the footer and the palette."""
    help: str = ""
    """One sentence for the help screen, if the title does not explain enough."""
    footer: bool = True
    """True if the footer may show the action. The palette and the help screen always show it."""
    wide: bool = False
    """True if a footer with spare space shows the action although `footer` is False."""
    weight: int = 0
    """Priority in a footer that is too narrow for all actions. The actions with the highest values are
    shown."""
    priority: bool = False
    """True if the key is handled before the focused widget receives it. Set it only for keys that type no
    text."""
    former_keys: str = ""
    """Keys that the action had in the previous release, separated by commas. If such a key has no action now,
    pressing it shows a message with the present key."""
    scope: str = field(kw_only=True)
    """Name of the widget that implements the action, as in `bindings_for`."""
    group: str = field(kw_only=True)
    """Heading in the palette and on the help screen."""

    @property
    def id(self) -> str:
        """Unique name such as `traffic.copy`. It is also the id of the key bindings."""
        return f"{self.scope}.{self.name}"

    @property
    def method(self) -> str:
        """Name of the method that the widget implements."""
        return "action_" + self.name.partition("(")[0]
