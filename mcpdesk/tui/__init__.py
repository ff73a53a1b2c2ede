"""Terminal user interface, drawn with Textual."""

import os
from importlib import import_module

_FRAME_RATE_VARIABLE = "TEXTUAL_FPS"
"""Environment variable with Textual's frame rate, which Textual reads once, when it is imported."""

if _FRAME_RATE_VARIABLE not in os.environ:
    # After a frame that takes too long, Textual skips the next one. At 60 frames a second, a key pressed
    # under heavy traffic is then drawn up to 33 ms late; at 240 frames, up to 8 ms. Unchanged content is not
    # drawn again.
    os.environ[_FRAME_RATE_VARIABLE] = "240"
    import_module("textual.constants")
    del os.environ[_FRAME_RATE_VARIABLE]  # programs started from here must not inherit it
