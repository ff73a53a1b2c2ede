"""Which theme the desk wears: loading, switching with a preview, and remembering the choice."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App
from textual.theme import Theme

from mcpdesk.paths import config_folder, package_themes, state_folder
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.themes import DEFAULT, load_theme, load_themes

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp


class ThemeShelf:
    """Ours and the person's themes. `folders` are searched in order, later ones winning."""

    def __init__(self, folders: Sequence[Path] | None = None, memory: Path | None = None) -> None:
        self._folders = (
            tuple(folders) if folders is not None else (package_themes(), config_folder() / "themes")
        )
        self._memory = memory or state_folder() / "theme"
        self._complaints: list[str] = []

    def dress(self, app: App[None], wanted: str | None) -> None:
        """Put one theme on before anything is drawn: the wanted, the remembered, or the default."""
        name = wanted or self._remembered() or DEFAULT
        theme = self._quick(name) or app.get_theme(name) or self._quick(DEFAULT)
        if theme is not None:
            app.register_theme(theme)
            app.theme = theme.name
            app.stylesheet.set_variables(app.get_css_variables())
        if wanted and (theme is None or theme.name != wanted):
            self._complaints.append(f"There is no theme called {wanted}.")

    def fill(self, app: App[None]) -> None:
        """Register all themes and tell of the broken ones."""
        themes, problems = load_themes(self._folders)
        for theme in themes.values():
            app.register_theme(theme)
        for complaint in [*self._complaints, *(f"theme left out: {problem}" for problem in problems)]:
            app.notify(one_line(complaint, 160), severity="warning", markup=False)

    async def pick(self, app: DeskApp) -> None:
        """Let the person choose; the screen wears each theme the cursor passes."""
        from mcpdesk.tui.widgets.menu import Choice, Menu

        before = app.theme
        names = sorted(app.available_themes, key=lambda name: (name not in self._own(), name))
        own = self._own()
        choices = [Choice(name, name, "mcpdesk" if name in own else "Textual") for name in names]

        def preview(name: str) -> None:
            app.theme = name

        menu = Menu("Theme", choices, filtered=True, cursor=names.index(before), passed=preview)
        chosen = await app.push_screen_wait(menu)
        if chosen:
            self.wear(app, chosen)
        else:
            app.theme = before

    def wear(self, app: App[None], name: str) -> None:
        """Put a theme on and remember it."""
        app.theme = name
        with contextlib.suppress(OSError):
            self._memory.parent.mkdir(parents=True, exist_ok=True)
            self._memory.write_text(name + "\n", "utf-8")

    def _own(self) -> set[str]:
        return {path.stem for folder in self._folders for path in folder.glob("*.toml")}

    def _quick(self, name: str) -> Theme | None:
        paths = [folder / f"{name}.toml" for folder in reversed(self._folders)]
        loaded = (load_theme(path) for path in paths if path.is_file())
        return next((theme for theme in loaded if isinstance(theme, Theme)), None)

    def _remembered(self) -> str:
        try:
            name = self._memory.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""
        return name if name.replace("-", "").isalnum() else ""
