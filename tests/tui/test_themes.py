"""Theme files: ours all load and can be read; broken ones are named with their line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from mcpdesk.paths import package_themes
from mcpdesk.tui.screens.main_screen import PANES
from mcpdesk.tui.themes import DEFAULT_THEME, TEXT_COLOURS, ThemeError, load_theme, load_themes, readable
from mcpdesk.tui.widgets.menu import Choice, Menu
from tests.support.action_menu import choose_action
from tests.support.contact_sheets import cells_of, faint
from tests.support.contrast import contrast
from tests.support.frame import running_frame, toasts
from tests.support.patience import until
from tests.support.workbench import bench

OURS, PROBLEMS = load_themes([package_themes()])
READ_ON = ("background", "surface", "panel")
MARKS = ("primary", "error", "warning", "success", "accent", "footer-key-foreground")


def variables_of(theme: Theme) -> dict[str, str]:
    return readable({**theme.to_color_system().generate(), **theme.variables})


def test_there_are_enough_themes_of_every_kind() -> None:
    assert not PROBLEMS and len(OURS) >= 6 and DEFAULT_THEME in OURS
    assert any(not theme.dark for theme in OURS.values())
    assert any(theme.ansi for theme in OURS.values()) and "contrast" in OURS
    assert not set(OURS) & set(BUILTIN_THEMES)
    assert {path.stem for path in package_themes().glob("*.toml")} == set(OURS)


@pytest.mark.parametrize("name", [name for name, theme in OURS.items() if not theme.ansi])
def test_theme_can_be_read(name: str) -> None:
    colours, least = variables_of(OURS[name]), 7.0 if name == "contrast" else 4.5
    for ground in READ_ON:
        for text in TEXT_COLOURS:
            ratio = contrast(Color.parse(colours[ground]), Color.parse(colours[text]))
            assert ratio >= least, f"{text} on {ground}: {ratio:.1f}"
        for mark in MARKS:
            ratio = contrast(Color.parse(colours[ground]), Color.parse(colours[mark]))
            assert ratio >= 3.5, f"{mark} on {ground}: {ratio:.1f}"
    ground, text = colours["block-cursor-background"], colours["block-cursor-foreground"]
    assert contrast(Color.parse(ground), Color.parse(text)) >= 4.5


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [name for name, theme in BUILTIN_THEMES.items() if not theme.ansi])
def test_themes_of_the_toolkit_can_be_read(name: str) -> None:
    colours = variables_of(BUILTIN_THEMES[name])
    for ground in READ_ON:
        for text in TEXT_COLOURS:
            ratio = contrast(Color.parse(colours[ground]), Color.parse(colours[text]))
            assert ratio >= 4.5, f"{text} on {ground}: {ratio:.1f}"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("theme", [*OURS.values(), *BUILTIN_THEMES.values()], ids=lambda theme: theme.name)
def test_letters_are_read_where_they_are_marked(theme: Theme) -> None:
    if theme.ansi:
        return
    colours = variables_of(theme)
    page, ink, dim = (Color.parse(colours[name]) for name in ("background", "foreground", "text-muted"))
    for name in ("block-cursor-blurred", "input-selection"):
        ground, over = (Color.parse(colours[f"{name}-{part}"]) for part in ("background", "foreground"))
        assert contrast(ground, over) >= 4.5 and ground.a == 1, name
        assert contrast(ground, ink) >= 3 and contrast(ground, dim) >= 2.3 and ground != page, name
    cursor, over = (Color.parse(colours[f"block-cursor-{part}"]) for part in ("background", "foreground"))
    assert contrast(cursor, over) >= 4.4, "white on the blue of textual-dark is the most there is"


def test_faint_letters_of_a_person_s_theme_are_made_readable(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'primary = "#444444"\nbackground = "#333333"\n\n'
        '[variables]\ntext-muted = "#3a3a3a"\ntext-error = "auto 80%"\n'
    )
    colours = variables_of(load_theme(path))
    assert contrast(Color.parse(colours["background"]), Color.parse(colours["text-muted"])) >= 4.5
    assert colours["text-error"] == "auto 80%", "what is mixed as it is drawn is left alone"


def test_terminal_theme_uses_the_terminals_own_colours_only() -> None:
    theme = OURS["terminal"]
    given = [theme.primary, theme.foreground, theme.background, *theme.variables.values()]
    assert all(str(colour).startswith("ansi_") for colour in given)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ('name = "x"\nprimary = \n', ":2", "Invalid value"),
        ('primary = "#123456"\nsecundary = "#000000"\n', ":2", "unknown key 'secundary'"),
        ('primary = "no colour"\n', ":1", "'primary' must be a colour, not 'no colour'"),
        ('name = "x"\n', ":1", "needs the colour"),
        ('primary = "#123456"\ndark = "yes"\n', ":2", "true or false"),
        ('primary = "#123456"\ntext_alpha = "1"\n', ":2", "number"),
        ('primary = "#123456"\nname = 3\n', ":2", "must be text"),
        ('primary = "#123456"\nvariables = 3\n', ":2", "must be a table"),
        ('primary = "#123456"\n\n[variables]\nborder = 3\n', ":4", "must be text"),
        (
            'primary = "#123456"\n\n[variables]\nborder = "#zz"\n',
            ":4",
            "'border' must be a colour, not '#zz'",
        ),
    ],
)
def test_broken_theme_is_named_with_its_line(tmp_path: Path, text: str, line: str, reason: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ThemeError, match=re.escape(reason)) as error:
        load_theme(path)
    assert str(error.value).startswith(f"{path}{line}: ")


def test_unreadable_theme_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "bytes.toml"
    path.write_bytes(b'name = "\xff"')
    for unreadable in (path, tmp_path / "missing.toml"):
        with pytest.raises(ThemeError, match=re.escape(str(unreadable))):
            load_theme(unreadable)


def test_later_folders_win_and_a_file_without_a_name_takes_the_files(tmp_path: Path) -> None:
    (tmp_path / "night.toml").write_text('primary = "#ff0000"\n')
    (tmp_path / "broken.toml").write_text("=")
    themes, problems = load_themes([package_themes(), tmp_path, tmp_path / "missing"])
    assert themes["night"].primary == "#ff0000" and len(problems) == 1


def test_ansi_theme_is_completed(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('primary = "ansi_red"\nansi = true\n')
    theme = load_theme(path)
    assert theme.variables["ansi-background"] == "ansi_black"


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["ansi-light", "ansi-dark", "terminal", "night"])
async def test_the_chosen_line_of_a_menu_with_a_filter_is_seen_in_every_theme(theme: str) -> None:
    async with running_frame() as (app, pilot):
        await until(lambda: theme in app.available_themes, pilot)
        app.theme = theme
        menu = Menu("Which", [Choice("first", 1), Choice("second", 2)], filtered=True)
        await app.push_screen(menu)
        await pilot.pause()
        chosen, other = (next(iter(menu.listing.render_line(y))).style for y in (0, 1))
        assert chosen is not None and other is not None
        assert chosen.reverse or (chosen.bgcolor != other.bgcolor and chosen.bgcolor is not None)


@pytest.mark.slow
async def test_whatever_is_written_can_be_read_in_every_theme() -> None:
    async with running_frame(panes=PANES) as (app, pilot):
        for name in sorted(OURS):
            app.theme = name
            # The terminal has the last word on its own colours.
            least = 2 if OURS[name].ansi else 4
            for screen in "123456":
                await pilot.press("escape", "escape", screen)
                assert list(faint(cells_of(app.export_screenshot()), least)) == [], (screen, name)


@pytest.mark.slow
async def test_the_editor_of_json_can_be_read_in_every_theme_also_one_that_is_chosen_meanwhile() -> None:
    async with bench(size=(100, 24)) as it:
        await it.pilot.press("enter", "ctrl+e")
        area = it.pane.arguments.editor.area
        area.text = '{\n"a": 1.5,\n"b": [true, null],\n"c": "t\\n",\n"d" x\n}'
        area.cursor_location = area.document.end
        await it.until(lambda: len(OURS) <= len(it.app.available_themes.keys() & OURS))
        for theme in (*OURS.values(), *BUILTIN_THEMES.values()):
            it.app.theme = theme.name
            await it.pilot.pause()
            cells, region = cells_of(it.app.export_screenshot()), area.region
            editor = {at: cell for at, cell in cells.items() if region.contains(at[1], at[0])}
            if not theme.ansi:
                assert len({cell.fore for cell in editor.values()}) >= 4, "keys, texts, numbers, words differ"
                assert list(faint(editor, 4.5)) == [], theme.name


@pytest.mark.slow
async def test_every_theme_can_be_switched_to_in_the_living_screen() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("5")
        for name in sorted(load_themes([package_themes()])[0]):
            app.theme = name
            await pilot.press("question_mark", "escape", "ctrl+p", "escape")
            assert app.theme == name and app.main.get_visual_style().foreground, name


async def test_person_s_own_theme_is_offered_and_a_broken_one_named(own_folders: Path) -> None:
    folder = own_folders / "config" / "themes"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text('primary = "#ff0000"\n')
    (folder / "broken.toml").write_text('primary = "#ff0000"\ncolour = 1\n')
    async with running_frame(theme="mine") as (app, pilot):
        await until(lambda: bool(toasts(app)), pilot)
        assert app.theme == "mine" and "mine" in app.available_themes
        assert "broken.toml:2: unknown key 'colour'" in toasts(app)[-1]


@pytest.mark.slow
async def test_each_theme_the_cursor_passes_is_worn_and_the_chosen_one_remembered() -> None:
    async with running_frame(theme="amber") as (app, pilot):
        await choose_action(pilot, "theme")
        await until(lambda: "Theme" in getattr(app.screen, "title_text", ""), pilot)
        assert isinstance(app.screen, Menu)
        names = [choice.label for choice in app.screen.choices]
        assert names[:8] == sorted(OURS) and "nord" in names
        await pilot.press("down")
        await pilot.pause()
        assert app.theme == "contrast"
        await pilot.press("escape")
        await pilot.pause()
        assert app.theme == "amber"
        await choose_action(pilot, "theme")
        await until(lambda: "Theme" in getattr(app.screen, "title_text", ""), pilot)
        await pilot.press(*"paper", "enter")
        await pilot.pause()
        assert app.theme == "paper"
    async with running_frame() as (app, _):
        assert app.theme == "paper"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("wanted", "memory", "worn", "said"),
    [
        ("plum", b"paper\n", "plum", []),
        ("nord", b"", "nord", []),
        ("nonesuch", b"", "night", ["Theme nonesuch does not exist."]),
        (None, b"../../\xff", "night", []),
    ],
)
async def test_what_is_worn_first(
    wanted: str | None, memory: bytes, worn: str, said: list[str], own_folders: Path
) -> None:
    (own_folders / "state").mkdir()
    (own_folders / "state" / "theme").write_bytes(memory)
    async with running_frame(theme=wanted) as (app, pilot):
        await until(lambda: set(OURS) <= set(app.available_themes), pilot)
        await until(lambda: app.theme == worn and toasts(app) == said, pilot)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["my_own_theme", "mine 2.0", "named_otherwise"])
async def test_a_theme_of_any_name_is_remembered(name: str, own_folders: Path) -> None:
    folder = own_folders / "config" / "themes"
    folder.mkdir(parents=True)
    file = folder / ("other.toml" if name == "named_otherwise" else f"{name}.toml")
    file.write_text(f'name = "{name}"\nprimary = "#224466"\n')
    async with running_frame() as (app, pilot):
        await until(lambda: name in app.available_themes, pilot)
        app.themes.use(app, name)
    async with running_frame() as (app, _):
        assert app.theme == name
