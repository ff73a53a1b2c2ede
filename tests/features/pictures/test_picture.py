"""A picture in a result."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image
from textual.containers import VerticalScroll
from textual.widgets import Static

from mcpdesk.features.pictures import picture
from mcpdesk.features.pictures.picture import MIN_ROWS, PictureView
from mcpdesk.features.pictures.terminal_graphics import Graphics, GraphicsKind
from tests.support.patience import until
from tests.support.pictures import BLUE, RED, encoded, packed, plain, two_halves
from tests.support.widgets import Stage, staged

HALVES = encoded(packed(two_halves()))


def noise() -> bytes:
    """A PNG that is as large as its pixels."""
    return packed(Image.effect_noise((600, 600), 80).convert("RGB"))


def colours(stage: Stage, line: int) -> list[tuple[int, int, int]]:
    """The colours of the half blocks in a line of the screen."""
    return [
        tuple(segment.style.color.get_truecolor())  # type: ignore[union-attr]
        for segment in stage.screen._compositor.render_strips()[line]
        for _ in range(segment.text.count("▀"))
    ]


async def test_a_picture_is_drawn_in_half_blocks_of_its_colours() -> None:
    async with staged(PictureView(HALVES, "image/png, 1 B")) as (stage, pilot):
        await until(lambda: "▀" in stage.shown(), pilot)
        assert stage.shown().startswith("40 x 40 PNG · image/png, 1 B")
        for line in range(1, 21):
            assert colours(stage, line) == [RED] * 20 + [BLUE] * 20
        assert colours(stage, 21) == []


async def test_a_picture_grows_and_shrinks_with_its_room() -> None:
    shown = PictureView(encoded(packed(two_halves(400, 400))))
    async with staged(VerticalScroll(shown), (60, 24)) as (stage, pilot):
        await until(lambda: len(colours(stage, 1)) == 42, pilot)
        assert shown.size.height == 22
        await pilot.resize_terminal(20, 40)
        await until(lambda: len(colours(stage, 1)) == 20, pilot)
        assert shown.size.height == 11
        await pilot.resize_terminal(60, 6)
        await until(lambda: len(colours(stage, 1)) == 2 * MIN_ROWS, pilot)
        assert shown.size.height == 1 + MIN_ROWS


async def test_a_picture_is_scrolled_like_text() -> None:
    below = encoded(packed(two_halves(40, 40).rotate(90)))
    scroll = VerticalScroll(Static("above"), PictureView(below), Static("below"))
    async with staged(scroll, (60, 10)) as (stage, pilot):
        await until(lambda: colours(stage, 2) == [BLUE] * 24, pilot)
        assert colours(stage, 9) == [RED] * 24
        scroll.scroll_end(animate=False)
        await until(lambda: "below" in stage.shown(), pilot)
        assert [colours(stage, line) for line in (0, 1, 5)] == [[BLUE] * 24, [BLUE] * 24, [RED] * 24]


async def test_what_shines_through_is_the_theme() -> None:
    clear = encoded(plain(40, 40, (255, 255, 255, 0), "RGBA"))
    async with staged(PictureView(clear)) as (stage, pilot):
        seen: list[tuple[int, int, int]] = []

        def is_filled() -> bool:
            behind = stage.screen.background_colors[1].rgb
            return behind not in seen and colours(stage, 1) == [behind] * 40

        for theme in ("textual-light", "textual-dark"):
            stage.theme = theme
            await until(is_filled, pilot)
            seen.append(stage.screen.background_colors[1].rgb)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: "***", "✗ not valid base64 · w saves it"),
        (lambda: encoded(b"nothing"), "✗ not one of PNG, JPEG, GIF, WEBP, BMP, ICO · w saves it"),
        (lambda: encoded(packed(two_halves())[:60]), "✗ broken: "),
        (lambda: encoded(noise()[:500_000]), "✗ broken: "),
        (lambda: encoded(plain(8000, 6000, 1, "L")), "✗ 8000 x 6000 pixels; at most 40,000,000 are allowed"),
        (lambda: "A" * 27_000_000, "✗ 20,250,000 bytes; at most 20,000,000 are allowed"),
    ],
)
async def test_what_cannot_be_drawn_says_why(wrong: Callable[[], str], told: str) -> None:
    async with staged(PictureView(wrong(), "image/png, much")) as (stage, pilot):
        await until(lambda: told in stage.shown(), pilot)
        assert "image/png, much" in stage.shown().splitlines()[0]
        assert "▀" not in stage.shown()


async def test_without_the_library_a_picture_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    async with staged(PictureView(HALVES, "image/png"), (90, 10)) as (stage, pilot):
        await until(lambda: "pip install 'mcpdesk[tools]' · w saves it" in stage.shown(), pilot)
        assert "✗ drawing needs pillow, which is not installed" in stage.shown()


async def test_without_colour_a_picture_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with staged(PictureView(HALVES, "image/png")) as (stage, pilot):
        text = "40 x 40 PNG · not drawn: the terminal has no colours · image/png"
        await until(lambda: text in stage.shown(), pilot)
        assert "▀" not in stage.shown()


async def test_notes_of_strangers_are_harmless() -> None:
    async with staged(PictureView(HALVES, "image/\x1b[31m[b]png")) as (stage, pilot):
        await until(lambda: "40 x 40 PNG · image/␛[31m[b]png" in stage.shown(), pilot)


class Wire:
    """Stands for the driver: keeps what would go to the terminal."""

    def __init__(self) -> None:
        self.sent = ""

    def write(self, text: str) -> None:
        self.sent += text


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    found = Wire()
    monkeypatch.setattr(picture, "driver_of", lambda app: found)
    return found


def drawn_with(monkeypatch: pytest.MonkeyPatch, kind: GraphicsKind) -> None:
    async def graphics_of(app: object) -> Graphics:
        return Graphics(kind)

    monkeypatch.setattr(picture, "graphics_of", graphics_of)


def to_terminal(stage: Stage) -> str:
    """Output of a full redraw."""
    update: Any = stage.screen._compositor.render_update(full=True)
    return str(update.render_segments(stage.console))


async def test_kitty_is_given_the_picture_once_and_shown_its_place(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn_with(monkeypatch, GraphicsKind.KITTY)
    shown = PictureView(HALVES)
    async with staged(shown) as (stage, pilot):
        await until(lambda: stage.shown().count("\U0010eeee") == 16 * 8, pilot)
        assert wire.sent.count("a=p,U=1") == 1
        await shown.remove()
        assert wire.sent.count("a=d,d=I") == 1


async def test_sixels_are_written_row_by_row(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn_with(monkeypatch, GraphicsKind.SIXEL)
    shown = PictureView(encoded(packed(two_halves(400, 400))))
    async with staged(VerticalScroll(Static("above"), shown, Static("below")), (60, 24)) as (stage, pilot):
        await until(lambda: to_terminal(stage).count("\x1bP") == 20, pilot)
        assert to_terminal(stage).count('"1;1;400;20') == 20
        shown.scroll_visible(animate=False, top=True)
        shown.parent.scroll_end(animate=False)  # type: ignore[union-attr]
        await until(lambda: "below" in stage.shown(), pilot)
        assert 19 <= to_terminal(stage).count("\x1bP") <= 20


@pytest.mark.slow
async def test_heavy_sixels_wait_until_the_picture_stands_still(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn_with(monkeypatch, GraphicsKind.SIXEL)
    shown = PictureView(encoded(noise()))
    scroll = VerticalScroll(shown, Static("\n" * 40))
    async with staged(scroll, (80, 40)) as (stage, pilot):
        await until(lambda: to_terminal(stage).count("\x1bP") == 30, pilot)
        monkeypatch.setattr(picture, "SCROLL_END_S", 3600.0)
        scroll.scroll_to(y=3, animate=False)
        await until(lambda: to_terminal(stage).count("\x1bP") == 0, pilot)
        shown._stop_scrolling()
        await until(lambda: to_terminal(stage).count("\x1bP") == 28, pilot)
