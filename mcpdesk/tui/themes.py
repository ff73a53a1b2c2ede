"""Themes from TOML files, built-in and user-defined, and the choice among them.

A user theme replaces a built-in theme of the same name. A file has the fields of `textual.theme.Theme`. An
invalid file is skipped and reported with path and line.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from textual.app import App
from textual.color import BLACK, WHITE, Color, ColorParseError
from textual.theme import Theme

from mcpdesk.paths import config_folder, package_themes, state_folder
from mcpdesk.tui.render.safe_text import one_line

DEFAULT_THEME = "night"
ANSI_VARIABLES = {"ansi-background": "ansi_black", "ansi-foreground": "ansi_white"}
"""Variables that Textual's own styles need in a theme with terminal colours."""
BACKGROUNDS = ("background", "surface", "panel")
"""Variables of a theme that are background colours of text."""
TEXT_COLOURS = (
    *("foreground", "text-muted", "text-disabled", "footer-key-foreground"),
    *("text-primary", "text-secondary", "text-accent", "text-success", "text-warning", "text-error"),
)
"""Variables of a theme that are colours of text."""
MIN_CONTRAST = 4.5
"""Minimum contrast of text and background, as required by WCAG. Text with more contrast is not changed."""
MARK_BACKGROUNDS = ("block-cursor-blurred-background", "input-selection-background")
"""Variables of a theme that are background colours of marks, such as a selection. Text on a mark may have any
colour."""
_MIN_TEXT_CONTRAST = 3.0
"""Minimum contrast of normal text on a mark."""
_MIN_DIM_CONTRAST = 2.3
"""Minimum contrast of muted text on a mark."""
_FIELD_TINT = 0.08
"""Share of the text colour in the background of a field."""
_MIDDLE_LUMINANCE = 0.18
"""Luminance at which black and white text are equally readable."""
_CONTRAST_STEPS = 20
"""Maximum number of steps that change a colour until its contrast is sufficient."""
_THEME_FIELDS = frozenset(field.name for field in fields(Theme))
_BOOLEAN = ((bool,), "true or false")
_NUMBER = ((int, float), "a number")
_FIELD_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "name": ((str,), "text"),
    "dark": _BOOLEAN,
    "ansi": _BOOLEAN,
    "luminosity_spread": _NUMBER,
    "text_alpha": _NUMBER,
    "variables": ((dict,), "a table"),
}
"""Types of the fields that are not colours, with their names in error messages."""


class ThemeError(ValueError):
    """Error in a theme file: `file:line: reason`, or without the line."""


def load_themes(folders: Iterable[Path]) -> tuple[dict[str, Theme], list[ThemeError]]:
    """Load the themes of the folders, by name. If folders contain the same name, the last folder is used.

    Also return the errors of invalid files.
    """
    themes, errors = {}, []
    for path in (path for folder in folders for path in sorted(folder.glob("*.toml"))):
        try:
            theme = load_theme(path)
        except ThemeError as error:
            errors.append(error)
        else:
            themes[theme.name] = theme
    return themes, errors


def readable(variables: dict[str, str], *, has_colour: bool = True) -> dict[str, str]:
    """Return the variables of a theme, adjusted so that the lists of the desk are readable.

    Muted text gets a colour instead of "auto 60%", which line widgets cannot resolve. Text with too little
    contrast becomes darker or brighter, and marks are weakened if text on them is hard to read. The cursor of
    an unfocused list is drawn reversed if the theme draws it in the colours of the page. Without colour, only
    the text style marks the cursor.
    """
    adjusted = dict(variables)
    page_colour, text_colour = variables["background"], variables["foreground"]
    for name, share in (("text-muted", 0.64), ("text-disabled", 0.42)):
        if variables[name].startswith("auto"):
            adjusted[name] = Color.parse(page_colour).blend(Color.parse(text_colour), share, alpha=1).hex
    backgrounds = [_parse_colour(adjusted[name]) for name in BACKGROUNDS]
    parsed_text_colour = _parse_colour(text_colour)
    if parsed_text_colour is not None and all(backgrounds):
        _make_readable(adjusted, [one for one in backgrounds if one is not None], parsed_text_colour)
    if not has_colour:
        for cursor in ("block-cursor", "block-cursor-blurred"):
            adjusted |= {f"{cursor}-background": page_colour, f"{cursor}-foreground": text_colour}
        adjusted["block-cursor-text-style"] = "bold reverse"
    if not has_colour or variables["block-cursor-blurred-background"] in ("ansi_default", page_colour):
        adjusted["block-cursor-blurred-text-style"] = "reverse"
    return adjusted


def _parse_colour(text: str) -> Color | None:
    """Parse a colour. Return None if it is invalid, or depends on the terminal or on the background."""
    try:
        colour = Color.parse(text)
    except ColorParseError:
        return None
    return colour if colour.ansi is None and not colour.auto and colour.a == 1 else None


def _make_readable(variables: dict[str, str], backgrounds: Sequence[Color], text_colour: Color) -> None:
    """Change colours with too little contrast in `variables`. `text_colour` is the colour of most text."""
    field_backgrounds = [one.blend(text_colour, _FIELD_TINT, alpha=1) for one in backgrounds[:2]]
    for name in TEXT_COLOURS:
        if (colour := _parse_colour(variables[name])) is not None:
            variables[name] = _legible(colour, [*backgrounds, *field_backgrounds]).hex
    dim_colour = _parse_colour(variables["text-muted"]) or text_colour
    for name in MARK_BACKGROUNDS:
        mark_colour, _, percent = variables[name].partition(" ")
        if (colour := _parse_colour(mark_colour[:7])) is None:
            continue
        share = Color.parse(mark_colour).a * float(percent.rstrip("%") or 100) / 100
        candidates = [
            backgrounds[0].blend(colour, share * (1 - step / _CONTRAST_STEPS), alpha=1)
            for step in range(_CONTRAST_STEPS)
        ]
        readable_candidates = (
            candidate
            for candidate in candidates
            if _contrast(text_colour, candidate) >= _MIN_TEXT_CONTRAST
            and _contrast(dim_colour, candidate) >= _MIN_DIM_CONTRAST
        )
        mark_background = next(readable_candidates, candidates[-1])
        variables[name] = mark_background.hex
        foreground_name = name.replace("background", "foreground")
        foreground = _parse_colour(variables.get(foreground_name, "")) or text_colour
        variables[foreground_name] = _legible(foreground, [mark_background]).hex
    if (cursor := _parse_colour(variables["block-cursor-background"])) is not None:
        cursor_text = _parse_colour(variables["block-cursor-foreground"]) or text_colour
        variables["block-cursor-foreground"] = _legible(cursor_text, [cursor]).hex


def _contrast(one: Color, other: Color) -> float:
    """Return the contrast ratio of two colours as WCAG defines it, 1 to 21."""
    dark, light = sorted((_luminance(one) + 0.05, _luminance(other) + 0.05))
    return light / dark


def _legible(colour: Color, backgrounds: Sequence[Color]) -> Color:
    """Return a colour, moved towards black or white as far as needed for readability on all backgrounds."""
    target = WHITE if max(map(_luminance, backgrounds)) < _MIDDLE_LUMINANCE else BLACK
    for step in range(_CONTRAST_STEPS):
        candidate = colour.blend(target, step / _CONTRAST_STEPS, alpha=1)
        if min(_contrast(candidate, background) for background in backgrounds) >= MIN_CONTRAST:
            return candidate
    return target


def _luminance(colour: Color) -> float:
    """Return the relative luminance of a colour, 0 to 1, by the formula of WCAG."""
    red, green, blue = (
        component / 12.92 if component <= 0.04045 else ((component + 0.055) / 1.055) ** 2.4
        for component in colour.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def load_theme(path: Path) -> Theme:
    """Load one theme. If the file has no name, the theme has the name of the file.

    Raises: ThemeError.
    """
    import tomllib

    text = ""
    try:
        text = path.read_text("utf-8-sig")
        values: dict[str, Any] = {"name": path.stem, **tomllib.loads(text)}
        for key, value in values.items():
            _check(key, value)
        theme = Theme(**values)
        if theme.ansi:
            theme.variables = {**ANSI_VARIABLES, **theme.variables}
        theme.to_color_system().generate()
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise ThemeError(f"{path}:{line[1]}: {error}" if line else f"{path}: {error}") from None
    except _InvalidValueError as error:
        key, reason = error.args
        raise ThemeError(f"{path}:{_line_of(text, key)}: {reason}") from None
    except TypeError:
        raise ThemeError(f"{path}:1: a theme needs the colour `primary`") from None
    except (OSError, UnicodeDecodeError, ColorParseError) as error:
        raise ThemeError(f"{path}: {error}") from None
    return theme


class _InvalidValueError(Exception):
    """Key of a theme file, and the error in its value."""


def _check(key: str, value: Any) -> None:
    """Check one field of a theme. Raises: _InvalidValueError."""
    types, type_name = _FIELD_TYPES.get(key, ((str,), "a colour"))
    if key not in _THEME_FIELDS:
        raise _InvalidValueError(key, f"unknown key {key!r}")
    is_valid = isinstance(value, types) and value != ""
    if not is_valid:
        raise _InvalidValueError(key, f"{key!r} must be {type_name}")
    if key not in _FIELD_TYPES:
        _check_colour(key, value)
    if key == "variables":
        _check_variables(value)


def _check_variables(variables: dict[str, Any]) -> None:
    """Check the CSS variables of a theme. Raises: _InvalidValueError."""
    for name, text in variables.items():
        if not isinstance(text, str):
            raise _InvalidValueError(name, f"variable {name!r} must be text")
        if text.startswith(("#", "rgb", "hsl", "ansi_")):
            _check_colour(name, text.partition(" ")[0])


def _check_colour(key: str, value: str) -> None:
    try:
        Color.parse(value)
    except ColorParseError:
        raise _InvalidValueError(key, f"{key!r} must be a colour, not {value!r}") from None


def _line_of(text: str, key: str) -> int:
    """Return the number of the line that begins with a key. Return 1 if there is no such line."""
    pattern = re.compile(rf'\s*[\["]*{re.escape(key)}\b')
    return next((number for number, line in enumerate(text.splitlines(), 1) if pattern.match(line)), 1)


class ThemeChoice:
    """Built-in and user themes, and the file that remembers the last choice."""

    def __init__(self) -> None:
        self._folders = (package_themes(), config_folder() / "themes")
        self._choice_file = state_folder() / "theme"
        self._unknown_name = ""
        """Requested name, if no theme has it. Otherwise empty."""
        self._are_registered = False

    def apply_first(self, app: App[None], requested_name: str | None) -> None:
        """Apply one theme before the first paint: the requested, the last chosen, or the default theme."""
        name = requested_name or self._remembered_name() or DEFAULT_THEME
        theme = self._load(name) or app.get_theme(name) or self._theme_named(name)
        theme = theme or self._load(DEFAULT_THEME)
        if theme is not None:
            app.register_theme(theme)
            app.theme = theme.name
            app.stylesheet.set_variables(app.get_css_variables())
        if requested_name and app.theme != requested_name:
            self._unknown_name = requested_name

    def register_all(self, app: App[None]) -> None:
        """Register all themes once, and show a notification for each invalid one."""
        if self._are_registered:
            return
        self._are_registered = True
        themes, problems = load_themes(self._folders)
        for theme in themes.values():
            app.register_theme(theme)
        messages = [f"theme skipped: {problem}" for problem in problems]
        if self._unknown_name:
            messages.insert(0, f"Theme {self._unknown_name} does not exist.")
        for message in messages:
            app.notify(one_line(message), severity="warning", markup=False)

    async def pick(self, app: App[None]) -> None:
        """Let the person choose a theme. The theme under the cursor is applied as a preview."""
        from mcpdesk.tui.screens.theme_menu import ThemeMenu
        from mcpdesk.tui.widgets.menu import Choice

        self.register_all(app)  # the action may be called before the first server is shown
        previous_theme = app.theme
        file_names = {path.stem for folder in self._folders for path in folder.glob("*.toml")}
        names = sorted(app.available_themes, key=lambda name: (name not in file_names, name))
        choices = []
        for name in names:
            origin = "mcpdesk" if name in file_names else "Textual"
            choices.append(Choice(name, name, "in use" if name == previous_theme else origin))

        def preview(name: str) -> None:
            app.theme = name

        menu = ThemeMenu("Theme", choices, filtered=True, cursor=names.index(previous_theme), preview=preview)
        chosen = await app.push_screen_wait(menu)
        if chosen:
            self.use(app, chosen)
        else:
            app.theme = previous_theme

    def use(self, app: App[None], name: str) -> None:
        """Apply a theme and remember it."""
        app.theme = name
        with contextlib.suppress(OSError):
            self._choice_file.parent.mkdir(parents=True, exist_ok=True)
            self._choice_file.write_text(name + "\n", "utf-8")

    def _load(self, name: str) -> Theme | None:
        for folder in reversed(self._folders):
            if (path := folder / f"{name}.toml").is_file():
                with contextlib.suppress(ThemeError):
                    return load_theme(path)
        return None

    def _theme_named(self, name: str) -> Theme | None:
        """Return the theme with this name from all files, or None if there is none."""
        return load_themes(self._folders)[0].get(name)

    def _remembered_name(self) -> str:
        try:
            name = self._choice_file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""
        return name if name.isprintable() and "/" not in name else ""
