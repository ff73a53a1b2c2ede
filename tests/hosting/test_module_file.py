"""Places and fingerprints of functions in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.errors import RegistrationError
from mcpdesk.hosting.folder.module_items import awaitable, dashed
from tests.support.module import module_file

TEXT = """
    import functools

    LIMIT = (
        3
    )
    OTHER: int = 4

    def wrapped(function):
        @functools.wraps(function)
        async def inner(): return await function()
        return inner

    @wrapped
    async def one(): return LIMIT

    async def two(): return 2
    """


def test_place_is_the_line_of_the_def(tmp_path: Path) -> None:
    with module_file(tmp_path, TEXT) as file:
        assert file.place(file.module.one) == "tools/my_file.py:14"
        assert file.place(file.module.two) == "tools/my_file.py:16"
        assert [file.line_of(name) for name in ("LIMIT", "OTHER", "NOWHERE")] == [3, 6, 1]


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("return LIMIT", "return LIMIT + 1", (True, False)),
        ("return 2", "return 3", (False, True)),
        ("        3\n", "        4\n", (True, True)),
        ("async def two", "# a comment\n\n    async def two", (False, False)),
    ],
)
def test_fingerprint_changes_with_what_a_function_may_use(
    tmp_path: Path, old: str, new: str, changed: tuple[bool, bool]
) -> None:
    prints = []
    for number, text in enumerate((TEXT, TEXT.replace(old, new))):
        with module_file(tmp_path / str(number), text) as file:
            functions = [file.module.one, file.module.two]
            prints.append(list(file.fingerprints(functions)))
    assert tuple(a != b for a, b in zip(*prints, strict=True)) == changed


def test_a_function_changed_in_nothing_keeps_its_fingerprint_whoever_its_neighbours_are(
    tmp_path: Path,
) -> None:
    with module_file(tmp_path / "few", TEXT) as file:
        before = list(file.fingerprints([file.module.one, file.module.two]))
    with module_file(tmp_path / "more", TEXT + "\n    async def three(): return 3\n") as file:
        after = list(file.fingerprints([file.module.one, file.module.two, file.module.three]))
    assert after[:2] == before
    assert len(set(after)) == 3


async def test_plain_functions_can_be_awaited_and_generators_cannot() -> None:
    def plain() -> None: ...

    async def stream():  # type: ignore[no-untyped-def]
        yield 1

    async def good() -> None: ...

    assert awaitable(good) is good
    assert await awaitable(plain)() is None
    with pytest.raises(RegistrationError, match="stream yields"):
        awaitable(stream)


def test_names_are_dashed() -> None:
    assert [dashed(name) for name in ("user_profile", "greet", "class_")] == [
        "user-profile",
        "greet",
        "class",
    ]
