"""What kitty is sent, and the cells that show it."""

from __future__ import annotations

import base64
import io
import re

from PIL import Image
from textual_image.renderable.tgp import _NUMBER_TO_DIACRITIC

from mcpdesk.tui.results.picture_drawing import MOST_CELLS, NUMBERS, deletion, placeholders, transmission

MESSAGE = re.compile(r"\x1b_G([^;\x1b]*);?([^\x1b]*)\x1b\\")


def test_a_picture_is_sent_in_pieces_and_placed() -> None:
    image = Image.effect_noise((100, 100), 80).convert("RGB")
    sent = transmission(image, 0x123456, 12, 5)
    *pieces, (placement, nothing) = MESSAGE.findall(sent)
    assert MESSAGE.sub("", sent) == ""
    assert len(pieces) > 2 and all(len(payload) <= 4096 for _, payload in pieces)
    assert {keys for keys, _ in pieces[:-1]} == {"i=1193046,f=100,q=2,m=1"}
    assert pieces[-1][0] == "i=1193046,f=100,q=2,m=0"
    assert (placement, nothing) == ("a=p,U=1,i=1193046,c=12,r=5,q=2", "")
    file = io.BytesIO(base64.b64decode("".join(payload for _, payload in pieces)))
    with Image.open(file) as arrived:
        assert arrived.tobytes() == image.tobytes()


def test_a_picture_is_forgotten() -> None:
    assert deletion(7) == "\x1b_Ga=d,d=I,i=7,q=2\x1b\\"


def test_every_cell_tells_picture_row_and_column() -> None:
    strips = placeholders(0x123456, 3, 2)
    assert [strip.cell_length for strip in strips] == [3, 3]
    assert strips[1].text == "".join(f"\U0010eeee{NUMBERS[1]}{NUMBERS[column]}" for column in range(3))
    (segment,) = strips[1]
    assert segment.style is not None and segment.style.color is not None
    assert segment.style.color.get_truecolor() == (0x12, 0x34, 0x56)
    assert strips[1].crop(1, 2).text == f"\U0010eeee{NUMBERS[1]}{NUMBERS[1]}"


def test_rows_and_columns_are_counted_as_others_do() -> None:
    assert [ord(one) for one in NUMBERS] == _NUMBER_TO_DIACRITIC
    assert MOST_CELLS == 297
