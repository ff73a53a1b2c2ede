"""Faults change one line and leave valid Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import mcpdesk
from tests.mutate.faults import faults
from tests.mutate.nearest import ALWAYS, imported, nearest


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


def test_options_of_classes_and_decorators_stay() -> None:
    assert faults("@dataclass(frozen=True)\nclass A(B, frozen=True):\n    a: int\n") == []
    assert len(faults("go = A(frozen=True)")) == 1


def test_every_module_stays_valid() -> None:
    path = Path(mcpdesk.__file__).with_name("settings.py")
    source = path.read_text("utf-8")
    found = faults(source)
    for fault in found[::40]:
        changed = fault.put_into(source)
        compile(changed, path.name, "exec")
        assert sum(a != b for a, b in zip(source.splitlines(), changed.splitlines(), strict=True)) == 1
    assert len(found) > 10


def test_the_nearest_tests_are_namesakes_and_importers(tmp_path: Path) -> None:
    for name, text in {
        "mcpdesk/tui/forms/box.py": "",
        "mcpdesk/tui/screen.py": "from mcpdesk.tui.forms import box",
        "tests/tui/test_box.py": "",
        "tests/tui/test_other.py": "",
        "tests/cli/test_own.py": "from mcpdesk.tui.forms.box import (\n    Box,\n    Lid,\n)",
        "tests/cli/test_user.py": "import mcpdesk.tui.screen",
        "tests/cli/test_far.py": "from mcpdesk.tui.forms.boxes import Box",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    near = [
        "tests/tui/test_box.py",
        "tests/cli/test_own.py",
        "tests/cli/test_user.py",
        "tests/tui/test_other.py",
    ]
    assert nearest(tmp_path, Path("mcpdesk/tui/forms/box.py")) == near
    assert "mcpdesk.tui.forms.box.Lid" in imported(tmp_path / near[1])


def test_of_files_that_import_a_module_those_with_its_rare_words_are_nearest(tmp_path: Path) -> None:
    for name, text in {
        "mcpdesk/tui/box.py": "def open_lid() -> str:\n    return 'squeaks loudly'",
        "tests/tui/test_a.py": "from mcpdesk.tui.box import open_lid",
        "tests/tui/test_b.py": "from mcpdesk.tui.box import open_lid\nassert 'squeaks'",
        ALWAYS[0]: "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    near = nearest(tmp_path, Path("mcpdesk/tui/box.py"))
    assert near == [ALWAYS[0], "tests/tui/test_b.py", "tests/tui/test_a.py"]
