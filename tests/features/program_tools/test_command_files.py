"""Output files of programs: paths outside of the allowed folders are refused before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpdesk.errors import BadArgument
from mcpdesk.features.program_tools.command_argv import Template, parse_template
from mcpdesk.features.program_tools.command_files import (
    OUTPUT_DIR,
    OutputFolders,
    claim_files,
    expected_files,
    made_files,
    release_files,
    resolve_path,
)
from mcpdesk.jobs.call_files import CreatedFiles


@pytest.fixture
def place(tmp_path: Path) -> OutputFolders:
    for name in ("server", "call", "shared"):
        (tmp_path / name).mkdir()
    return OutputFolders(tmp_path / "server", tmp_path / "call", (tmp_path / "shared",))


def templates(*texts: str) -> tuple[Template, ...]:
    return tuple(map(parse_template, texts))


def fixed(place: OutputFolders) -> dict[str, str]:
    return {OUTPUT_DIR: str(place.output), "folder": str(place.folder)}


def test_relative_path_leads_into_the_folder_of_the_call(place: OutputFolders) -> None:
    assert resolve_path("out", "map.png", place) == str(place.output / "map.png")
    assert resolve_path("out", "a/./b/../map.png", place) == str(place.output / "a/map.png")
    assert resolve_path("out", ["a", "b"], place) == [str(place.output / "a"), str(place.output / "b")]
    assert resolve_path("out", None, place) is None


def test_whole_path_may_lead_below_what_is_allowed(place: OutputFolders) -> None:
    shared = place.allowed[0]
    assert resolve_path("out", f"{shared}/x/map.png", place) == f"{shared}/x/map.png"
    assert resolve_path("out", f"{place.output}/map.png", place) == f"{place.output}/map.png"


@pytest.mark.parametrize(
    "path",
    ["../x", "a/../../x", "/etc/x", "~root/../../x", "{server}/tools/evil.py", "{shared}/../x", "{shared}x",
     "{shared}/link/x", "{shared}/file-link", "{shared}/link/../../x"],
)  # fmt: skip
def test_path_that_leads_elsewhere_is_refused(place: OutputFolders, path: str) -> None:
    shared = place.allowed[0]
    (shared / "link").symlink_to(place.folder)
    (shared / "file-link").symlink_to(place.folder / "mcp.json")
    path = path.replace("{server}", str(place.folder)).replace("{shared}", str(shared))
    with pytest.raises(BadArgument, match=r"out: no file may be written at .*output_dirs"):
        resolve_path("out", path, place)


@pytest.mark.parametrize("path", ["", ".", "/", "a/", "..", "a/.."])
def test_path_without_a_name_is_refused(place: OutputFolders, path: str) -> None:
    with pytest.raises(BadArgument, match="is not a file name"):
        resolve_path("out", path, place)


PARTS = st.sampled_from(["..", ".", "", "a", "link", "tools", "~", "%2e%2e", "..\\", "…"])


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(PARTS, min_size=1, max_size=6), st.booleans())
def test_no_path_leads_out(place: OutputFolders, parts: list[str], is_whole: bool) -> None:
    link = place.output / "link"
    if not link.is_symlink():
        link.symlink_to(place.folder)
    roots = (place.output, *place.allowed)
    text = ("/" if is_whole else "") + "/".join(parts)
    try:
        made = expected_files(
            templates("{out}"), {"out": resolve_path("out", text, place)}, fixed(place), place
        )
    except BadArgument:
        return
    for each in made:
        assert any(each.path.is_relative_to(root) for root in roots)
        assert any(each.path.resolve().is_relative_to(root.resolve()) for root in roots)


def make(place: OutputFolders, *texts: str, **values: Any) -> list[str]:
    made = expected_files(templates(*texts), values, fixed(place), place)
    return [str(each.path) for each in made]


def test_authors_folders_are_made_and_values_are_parts_of_names(place: OutputFolders) -> None:
    assert make(place, "maps/{name}.png", name="a b") == [f"{place.folder}/maps/a b.png"]
    assert (place.folder / "maps").is_dir()
    assert make(place, "{output_dir}/{name}/x.txt", name="n") == [f"{place.output}/n/x.txt"]
    assert make(place, "fixed.txt", "{none}") == [f"{place.folder}/fixed.txt"]
    assert make(place, "{out}", "{out}.json", out=f"{place.output}/o") == [
        f"{place.output}/o",
        f"{place.output}/o.json",
    ]
    for value in ("../tools/evil", "x/y", "/etc/passwd"):
        with pytest.raises(BadArgument, match="must not contain '/'"):
            make(place, "maps/{name}.py", name=value)
    with pytest.raises(BadArgument, match="leaves its folder"):
        make(place, "maps/{a}{b}/x", a=".", b=".")


@pytest.mark.parametrize(
    "path", ["x" * 256, "ü" * 128, "x" * 252, "x" * 256 + "/y", "/".join(["x" * 200] * 30)]
)
def test_path_that_is_too_long_for_a_file_is_refused_by_name(place: OutputFolders, path: str) -> None:
    refused = pytest.raises(BadArgument, match=r"out: it makes a path that is too long: .* 255 bytes")
    with refused:
        make(place, "{out}.json", out=resolve_path("out", path, place))
    with refused:
        make(place, "{out}.json", out=resolve_path("out", f"{place.allowed[0]}/{path}", place))
    assert not [*place.output.iterdir(), *place.allowed[0].iterdir()]
    with pytest.raises(BadArgument, match="name: it makes a path that is too long"):
        make(place, "{output_dir}/{name}.json", name="x" * 252)
    assert make(place, "{out}.json", out=resolve_path("out", "x" * 250, place))


def test_files_beside_the_one_asked_for_are_looked_at_as_well(place: OutputFolders) -> None:
    made, shared = CreatedFiles(), place.allowed[0]
    texts = templates("{out}", "{out}.json", "{out}-*.png", "own.txt")
    asked = expected_files(texts, {"out": f"{shared}/new/o"}, fixed(place), place)
    assert not (shared / "new").exists()
    assert (
        claim_files(expected_files(texts, {"out": f"{place.output}/o"}, fixed(place), place), place, made)
        == ()
    )
    for _ in range(2):
        own = claim_files(asked, place, made)
        for name in ("o", "o.json", "o-1.png", "o-2.png"):
            (shared / "new" / name).write_text(name)
        release_files(asked, own, made)
    for name in ("o.json", "o-3.png"):
        (shared / "new" / name).write_text("precious")
        with pytest.raises(BadArgument, match=f"out: .*{name}.* was not created here.* choose another name"):
            claim_files(asked, place, made)
        (shared / "new" / name).unlink()
    claim_files(asked, place, made)


def test_where_no_folder_can_be_made_the_argument_is_named_and_nothing_stays_claimed(
    place: OutputFolders,
) -> None:
    made, shared = CreatedFiles(), place.allowed[0]
    (shared / "file").write_text("")
    texts = templates("{first}", "{second}")
    values = {"first": f"{shared}/new", "second": f"{shared}/file/below/x"}
    with pytest.raises(BadArgument, match=r"second: '.*/file/below/x': .*; choose another name"):
        claim_files(expected_files(texts, values, fixed(place), place), place, made)
    (shared / "new").write_text("somebody's")
    with pytest.raises(BadArgument, match=r"first: .*/new.* was not created here"):
        claim_files(expected_files(texts, values, fixed(place), place), place, made)


def test_only_what_is_there_was_produced(place: OutputFolders) -> None:
    asked = expected_files(templates("a.txt", "b.txt", "{output_dir}/*.png"), {}, fixed(place), place)
    (place.folder / "a.txt").write_text("a")
    for name in ("1.png", "2.png", "3.jpg"):
        (place.output / name).write_text(name)
    files, notes = made_files(asked, place)
    assert files == [place.folder / "a.txt", place.output / "1.png", place.output / "2.png"]
    assert notes == [f"{place.folder}/b.txt was not written"]


def test_marks_in_values_are_no_pattern(place: OutputFolders) -> None:
    for name in ("[a].png", "a.png", "x.png"):
        (place.output / name).write_text(name)
    files, _ = made_files(
        expected_files(templates("{output_dir}/{n}.*"), {"n": "[a]"}, fixed(place), place), place
    )
    assert [file.name for file in files] == ["[a].png"]
    files, _ = made_files(
        expected_files(templates("{output_dir}/{n}.png"), {"n": "*"}, fixed(place), place), place
    )
    assert files == []


def test_link_that_leads_out_is_not_given_out(place: OutputFolders, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    asked = expected_files(templates("{output_dir}/*"), {}, fixed(place), place)
    (place.output / "link.txt").symlink_to(secret)
    files, notes = made_files(asked, place)
    assert files == []
    assert "cannot be returned" in notes[0]
