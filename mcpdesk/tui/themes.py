"""Themes from TOML files, ours, then the person's own, and which of them is applied and remembered.

A theme of the person replaces ours of the same name. A file has the fields of `textual.theme.Theme`; one
that is broken is reported with file and line and left out.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
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
_FIELDS = frozenset(field.name for field in fields(Theme))
_SWITCH, _NUMBER = ((bool,), "true or false"), ((int, float), "a number")
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "name": ((str,), "text"),
    "dark": _SWITCH,
    "ansi": _SWITCH,
    "luminosity_spread": _NUMBER,
    "text_alpha": _NUMBER,
    "variables": ((dict,), "a table"),
}
"""The types of the fields that are no colours, and what they are called."""


@dataclass(frozen=True, slots=True)
class ThemeProblem:
    """A theme file that was left out. `place` is `file:line`, or the file alone."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


def load_themes(folders: Iterable[Path]) -> tuple[dict[str, Theme], list[ThemeProblem]]:
    """Every theme of the folders by name, later folders winning, and what was wrong with the rest."""
    loaded = [load_theme(path) for folder in folders for path in sorted(folder.glob("*.toml"))]
    themes = {each.name: each for each in loaded if isinstance(each, Theme)}
    return themes, [each for each in loaded if isinstance(each, ThemeProblem)]


def readable(variables: dict[str, str], *, has_colour: bool = True) -> dict[str, str]:
    """The variables of a theme, so that our lists can be read in it.

    Muted text becomes a colour instead of "auto 60%", which line widgets cannot resolve. The cursor of a list
    without the focus is seen too: some themes of the toolkit draw it in the colours of the page. Without
    colour the cursor is told by its style alone.
    """
    changed = dict(variables)
    page, letters = variables["background"], variables["foreground"]
    for name, share in (("text-muted", 0.64), ("text-disabled", 0.42)):
        if variables[name].startswith("auto"):
            changed[name] = Color.parse(page).blend(Color.parse(letters), share, alpha=1).hex
    for cursor, style in (("block-cursor", "bold reverse"), ("block-cursor-blurred", "reverse")):
        if not has_colour:
            changed |= {f"{cursor}-background": page, f"{cursor}-foreground": letters}
        elif cursor == "block-cursor" or variables[f"{cursor}-background"] not in ("ansi_default", page):
            continue
        changed[f"{cursor}-text-style"] = style
    return changed


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
    except _WrongValue as error:
        return ThemeProblem(f"{path}:{_line_of(text, error.key)}", str(error))
    except (OSError, UnicodeDecodeError) as error:
        return ThemeProblem(str(path), str(error))


class _WrongValue(Exception):
    """A value a theme cannot have. `key` is where it stands."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


def _theme(values: dict[str, Any]) -> Theme:
    for key, value in values.items():
        kinds, word = _KINDS.get(key, ((str,), "a colour"))
        if key not in _FIELDS:
            raise _WrongValue(key, f"unknown key {key!r}")
        if not isinstance(value, kinds) or value == "":
            raise _WrongValue(key, f"{key!r} must be {word}")
        if key not in _KINDS:
            _check_colour(key, str(value))
    variables: dict[str, Any] = values.get("variables", {})
    for name, text in variables.items():
        if not isinstance(text, str):
            raise _WrongValue(name, f"variable {name!r} must be text")
        if text.startswith(("#", "rgb", "hsl", "ansi_")):
            _check_colour(name, text.partition(" ")[0])
    if "primary" not in values:
        raise _WrongValue("primary", "a theme needs the colour `primary`")
    theme = Theme(**values)
    if theme.ansi:
        theme.variables = {**ANSI_VARIABLES, **theme.variables}
    try:
        theme.to_color_system().generate()
    except ColorParseError as error:
        raise _WrongValue("variables", str(error)) from error
    return theme


def _check_colour(key: str, value: str) -> None:
    try:
        Color.parse(value)
    except ColorParseError as error:
        raise _WrongValue(key, f"{value!r} is no colour for {key!r}") from error


def _line_of(text: str, key: str) -> int:
    lines = text.splitlines()
    return next((n for n, line in enumerate(lines, 1) if re.match(rf'\s*[\["]*{re.escape(key)}\b', line)), 1)


class ThemeChoice:
    """Ours and the person's themes, and the file that remembers which was chosen last."""

    def __init__(self) -> None:
        self._folders = (package_themes(), config_folder() / "themes")
        self._memory = state_folder() / "theme"
        self._unknown = ""
        """The name that was asked for and that no theme has."""

    def apply_first(self, app: App[None], wanted: str | None) -> None:
        """Apply one theme before anything is drawn: the wanted one, the remembered one, or the default."""
        name = wanted or self._remembered() or DEFAULT
        theme = self._load(name) or app.get_theme(name) or self._load(DEFAULT)
        if theme is not None:
            app.register_theme(theme)
            app.theme = theme.name
            app.stylesheet.set_variables(app.get_css_variables())
        if wanted and app.theme != wanted:
            self._unknown = wanted

    def register_all(self, app: App[None]) -> None:
        """Register all themes and show a toast for each broken one."""
        themes, problems = load_themes(self._folders)
        for theme in themes.values():
            app.register_theme(theme)
        complaints = [f"theme left out: {problem}" for problem in problems]
        if self._unknown:
            complaints.insert(0, f"There is no theme called {self._unknown}.")
        for complaint in complaints:
            app.notify(one_line(complaint, 160), severity="warning", markup=False)

    async def pick(self, app: App[None]) -> None:
        """Let the person choose; each theme under the cursor is applied."""
        from mcpdesk.tui.widgets.menu import Choice, Menu

        before, own = app.theme, {path.stem for folder in self._folders for path in folder.glob("*.toml")}
        names = sorted(app.available_themes, key=lambda name: (name not in own, name))
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

    def _load(self, name: str) -> Theme | None:
        paths = (folder / f"{name}.toml" for folder in reversed(self._folders))
        loaded = (load_theme(path) for path in paths if path.is_file())
        return next((theme for theme in loaded if isinstance(theme, Theme)), None)

    def _remembered(self) -> str:
        try:
            name = self._memory.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""
        return name if name.replace("-", "").isalnum() else ""
