"""Themes from TOML files, ours, then the person's own, and which of them is applied and remembered.

A theme of the person replaces ours of the same name. A file has the fields of `textual.theme.Theme`; one
that is broken is reported with file and line and left out.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from textual.app import App
from textual.color import Color, ColorParseError
from textual.theme import Theme

from mcpdesk.paths import config_folder, package_themes, state_folder
from mcpdesk.tui.render.safe_text import one_line

DEFAULT = "night"
ANSI_VARIABLES = {"ansi-background": "ansi_black", "ansi-foreground": "ansi_white"}
"""What the toolkit's own styles ask of a theme of terminal colours."""
_FIELDS = {field.name: str(field.type) for field in fields(Theme)}
_COLOURS = tuple(
    name
    for name in _FIELDS
    if name not in ("name", "dark", "ansi", "variables", "luminosity_spread", "text_alpha")
)


@dataclass(frozen=True, slots=True)
class ThemeProblem:
    """A theme file that was left out. `place` is `file:line`, or the file alone."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


def load_themes(folders: Iterable[Path]) -> tuple[dict[str, Theme], list[ThemeProblem]]:
    """Every theme of the folders by name, later folders winning, and what was wrong with the rest."""
    themes: dict[str, Theme] = {}
    problems: list[ThemeProblem] = []
    for path in (path for folder in folders for path in sorted(folder.glob("*.toml"))):
        loaded = load_theme(path)
        if isinstance(loaded, Theme):
            themes[loaded.name] = loaded
        else:
            problems.append(loaded)
    return themes, problems


def without_auto(variables: dict[str, str]) -> dict[str, str]:
    """`variables` with muted text as a colour instead of "auto 60%", which line widgets cannot resolve."""
    ground, letters = Color.parse(variables["background"]), Color.parse(variables["foreground"])
    mixed = {
        name: ground.blend(letters, share, alpha=1).hex
        for name, share in (("text-muted", 0.64), ("text-disabled", 0.42))
        if variables[name].startswith("auto")
    }
    return {**variables, **mixed}


def without_colour(variables: dict[str, str]) -> dict[str, str]:
    """`variables` with a cursor that is told by its style alone."""
    plain = {"foreground": variables["foreground"], "background": variables["background"]}
    cursor = {f"block-cursor-{part}": colour for part, colour in plain.items()}
    blurred = {f"block-cursor-blurred-{part}": colour for part, colour in plain.items()}
    styles = {"block-cursor-text-style": "bold reverse", "block-cursor-blurred-text-style": "reverse"}
    return {**variables, **cursor, **blurred, **styles}


def with_visible_cursor(variables: dict[str, str]) -> dict[str, str]:
    """`variables` with a cursor that is seen in lists without the focus, too.

    Some themes of the toolkit draw it there in the colours of the page.
    """
    hidden = ("ansi_default", variables.get("background"))
    if variables.get("block-cursor-blurred-background") not in hidden:
        return variables
    return {**variables, "block-cursor-blurred-text-style": "reverse"}


def load_theme(path: Path) -> Theme | ThemeProblem:
    """One theme; a file without a name takes the file's."""
    import tomllib

    text = ""
    try:
        text = path.read_text("utf-8-sig")
        return _theme({"name": path.stem, **tomllib.loads(text)})
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        return ThemeProblem(f"{path}:{line[1]}" if line else str(path), str(error))
    except _Wrong as error:
        return ThemeProblem(f"{path}:{_line_of(text, error.key)}", str(error))
    except (OSError, UnicodeDecodeError) as error:
        return ThemeProblem(str(path), str(error))


class _Wrong(Exception):
    """A value a theme cannot have. `key` is where it stands."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


def _theme(values: dict[str, Any]) -> Theme:
    for key, value in values.items():
        _check(key, value)
    if "primary" not in values:
        raise _Wrong("primary", "a theme needs the colour `primary`")
    theme = Theme(**values)
    if theme.ansi:
        theme.variables = {**ANSI_VARIABLES, **theme.variables}
    try:
        theme.to_color_system().generate()
    except ColorParseError as error:
        raise _Wrong("variables", str(error)) from error
    return theme


def _check(key: str, value: Any) -> None:
    if key not in _FIELDS:
        raise _Wrong(key, f"unknown key {key!r}")
    if key in _COLOURS:
        _check_colour(key, value)
    elif key == "variables":
        _check_variables(value)
    elif key in ("dark", "ansi") and not isinstance(value, bool):
        raise _Wrong(key, f"{key!r} must be true or false")
    elif key in ("luminosity_spread", "text_alpha") and not isinstance(value, (int, float)):
        raise _Wrong(key, f"{key!r} must be a number")
    elif key == "name" and not (isinstance(value, str) and value):
        raise _Wrong(key, "'name' must be text")


def _check_variables(value: Any) -> None:
    if not isinstance(value, dict):
        raise _Wrong("variables", "'variables' must be a table")
    for name, text in value.items():
        if not isinstance(text, str):
            raise _Wrong(name, f"variable {name!r} must be text")
        if text.startswith(("#", "rgb", "hsl", "ansi_")):
            _check_colour(name, text.partition(" ")[0])


def _check_colour(key: str, value: Any) -> None:
    try:
        Color.parse(value if isinstance(value, str) else "")
    except ColorParseError as error:
        raise _Wrong(key, f"{value!r} is no colour for {key!r}") from error


def _line_of(text: str, key: str) -> int:
    lines = text.splitlines()
    return next((n for n, line in enumerate(lines, 1) if re.match(rf'\s*[\["]*{re.escape(key)}\b', line)), 1)


class ThemeChoice:
    """Ours and the person's themes. `folders` are searched in order, later ones winning."""

    def __init__(self, folders: Sequence[Path] | None = None, memory: Path | None = None) -> None:
        self._folders = (
            tuple(folders) if folders is not None else (package_themes(), config_folder() / "themes")
        )
        self._memory = memory or state_folder() / "theme"
        self._complaints: list[str] = []

    def apply_first(self, app: App[None], wanted: str | None) -> None:
        """Apply one theme before anything is drawn: the wanted one, the remembered one, or the default."""
        name = wanted or self._remembered() or DEFAULT
        theme = self._load_one(name) or app.get_theme(name) or self._load_one(DEFAULT)
        if theme is not None:
            app.register_theme(theme)
            app.theme = theme.name
            app.stylesheet.set_variables(app.get_css_variables())
        if wanted and (theme is None or theme.name != wanted):
            self._complaints.append(f"There is no theme called {wanted}.")

    def register_all(self, app: App[None]) -> None:
        """Register all themes and show a toast for each broken one."""
        themes, problems = load_themes(self._folders)
        for theme in themes.values():
            app.register_theme(theme)
        for complaint in [*self._complaints, *(f"theme left out: {problem}" for problem in problems)]:
            app.notify(one_line(complaint, 160), severity="warning", markup=False)

    async def pick(self, app: App[None]) -> None:
        """Let the person choose; each theme under the cursor is applied."""
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
            self.use(app, chosen)
        else:
            app.theme = before

    def use(self, app: App[None], name: str) -> None:
        """Apply a theme and remember it."""
        app.theme = name
        with contextlib.suppress(OSError):
            self._memory.parent.mkdir(parents=True, exist_ok=True)
            self._memory.write_text(name + "\n", "utf-8")

    def _own(self) -> set[str]:
        return {path.stem for folder in self._folders for path in folder.glob("*.toml")}

    def _load_one(self, name: str) -> Theme | None:
        paths = [folder / f"{name}.toml" for folder in reversed(self._folders)]
        loaded = (load_theme(path) for path in paths if path.is_file())
        return next((theme for theme in loaded if isinstance(theme, Theme)), None)

    def _remembered(self) -> str:
        try:
            name = self._memory.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""
        return name if name.replace("-", "").isalnum() else ""
