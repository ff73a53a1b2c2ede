"""The screen: everything a person sees, drawn with Textual."""

import os
from importlib import import_module

_FRAMES = "TEXTUAL_FPS"
"""Where Textual learns how often a second it may draw, once, when it is imported."""

if _FRAMES not in os.environ:
    # Of 60 a second, one is left out after each that takes longer: a key pressed while messages pour in is
    # drawn up to 33 ms late, of 240 up to 8 ms. Nothing is drawn more often that has not changed.
    os.environ[_FRAMES] = "240"
    import_module("textual.constants")
    del os.environ[_FRAMES]  # programs that are started here decide for themselves
