"""Faults change one line and leave valid Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import mcpdesk
from tests.mutate.faults import faults


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("a = b < c", "a = b <= c"),
        ("a = b is None", "a = b is not None"),
        ("a = b and c", "a = b or c"),
        ("a = b + 'ä' + c", "a = b + 'ä' - c"),
        ("a = not b", "a = bool(b)"),
        ("KEEP_ALIVE_S = 15.0", "KEEP_ALIVE_S = 1500.0"),
        ("a = True", "a = False"),
        ("go()", "pass"),
        ("a = 1 if b else c", "a = 1 if (not (b)) else c"),
    ],
)
def test_a_line_gets_its_fault(line: str, changed: str) -> None:
    assert changed in [fault.put_into(line) for fault in faults(line)]


def test_texts_for_readers_stay() -> None:
    assert (
        faults(
            '"""Docs."""\nfrom a import b\ndef f(a: 1 = None) -> 2:\n    """Docs."""\n    raise E(f"{a + 1}")'
        )
        == []
    )


def test_every_module_stays_valid() -> None:
    path = Path(mcpdesk.__file__).with_name("settings.py")
    source = path.read_text("utf-8")
    found = faults(source)
    for fault in found[::40]:
        changed = fault.put_into(source)
        compile(changed, path.name, "exec")
        assert sum(a != b for a, b in zip(source.splitlines(), changed.splitlines(), strict=True)) == 1
    assert len(found) > 10
