"""Menu of themes at the edge of the screen. The screen is drawn in the theme under the cursor."""

from __future__ import annotations

from textual import on
from textual.content import Content
from textual.widgets import Static

from mcpdesk.tui.widgets.menu import ChoiceList, Menu

SAMPLE = (
    ("✓ ok", "$text-success"),
    ("✕ error", "$text-error"),
    ("! warning", "$text-warning"),
    ("name", "$text-primary"),
    ("accent", "$text-accent"),
    ("muted", "$text-muted"),
    (" selected ", "$block-cursor-foreground on $block-cursor-background"),
)
"""Texts below the menu, with the styles that they show."""


class ThemeMenu(Menu):
    """Menu at the right edge that does not dim the screen."""

    DEFAULT_CSS = """
    ThemeMenu { align: right bottom; background: transparent; }
    ThemeMenu > .box { width: 40; height: 60%; margin: 1 1; }
    ThemeMenu ChoiceList { height: 1fr; }
    ThemeMenu .sample { height: auto; padding: 0 1; margin-top: 1; }
    """

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(".box").mount(Static(classes="sample", markup=False))
        self.call_after_refresh(self._show_sample)

    @on(ChoiceList.Moved)
    def _show_sample(self) -> None:
        samples = [Content.styled(text, style) for text, style in SAMPLE]
        for sample in self.query(".sample").results(Static):
            sample.update(Content("  ").join(samples))
