"""`keys.toml` gives actions other keys; what is wrong in it is named by line, and stops nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.tui.actions import BY_ID
from mcpdesk.tui.keymap import FILE_NAME, MAX_BYTES, MAX_KEYS, read_keymap
from tests.support.frame import running_frame


@pytest.fixture
def keys_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the file that a desk reads."""
    monkeypatch.setenv("MCPDESK_CONFIG_DIR", str(tmp_path))
    return tmp_path / FILE_NAME


def test_without_a_file_nothing_changes(keys_file: Path) -> None:
    keymap = read_keymap(keys_file)
    assert (keymap.keys, keymap.problems, keymap.conflicts) == ({}, (), [])


def test_ids_may_be_quoted_or_not_and_have_one_key_or_several(keys_file: Path) -> None:
    keys_file.write_text('"traffic.filter" = "ctrl+f"\njobs.kill = ["f9", "?"]\n[logs]\nlevel = []\n')
    keymap = read_keymap(keys_file)
    assert keymap.keys == {"traffic.filter": "ctrl+f", "jobs.kill": "f9,?", "logs.level": ""}
    assert keymap.problems == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('\n"logs.levl" = "x"\n', "line 2: no action has the id 'logs.levl'; did you mean 'logs.level'?"),
        ('"zzz" = "x"\n', "line 1: no action has the id 'zzz'; `mcpdesk keys` lists all ids"),
        ('# x\n\n"logs.level" = "ctl+x"\n', "line 3: 'ctl+x' is not a key"),
        ('"logs.level" = "nokey"\n', "line 1: 'nokey' is not a key"),
        ('"logs.level" = ""\n', "line 1: '' is not a key"),
        ('"logs.level" = "x s"\n', "line 1: 'x s': a sequence must begin with g, ], [, v"),
        ('"logs.level" = "g nokey"\n', "line 1: 'nokey' is not a key"),
        ('"logs.level" = "g s x"\n', "line 1: 'g s x' is not a key"),
        ('"logs.level" = 7\n', "line 1: the value must be a key or a list of keys, not 7"),
        ('"logs.level" = [1]\n', "line 1: the value must be a key or a list of keys, not [1]"),
        (
            f'"logs.level" = {["x"] * (MAX_KEYS + 1)}\n',
            f"line 1: {MAX_KEYS + 1} keys; an action can have at most",
        ),
        ('"logs.level" = "x"\n"logs.level" = \n', "line 2: Invalid value, so no key was changed"),
        ('"logs.level" = "x', "line 1: "),
    ],
)
def test_an_invalid_entry_is_named_with_its_line(keys_file: Path, text: str, problem: str) -> None:
    keys_file.write_text(text)
    keymap = read_keymap(keys_file)
    assert keymap.keys == {}
    assert len(keymap.problems) == 1
    assert f"{FILE_NAME}, {problem}" in keymap.problems[0]


def test_valid_entries_count_beside_invalid_ones(keys_file: Path) -> None:
    keys_file.write_text('"logs.levl" = "x"\n"logs.level" = "ctrl+v"\n')
    keymap = read_keymap(keys_file)
    assert keymap.keys == {"logs.level": "ctrl+v"} and len(keymap.problems) == 1


def test_odd_files_are_left_alone(keys_file: Path) -> None:
    keys_file.write_bytes(b'"logs.level" = "x"\n# \xff\n')
    assert "line 2: not UTF-8" in read_keymap(keys_file).problems[0]
    keys_file.write_text("#" * (MAX_BYTES + 1))
    assert f"larger than {MAX_BYTES:,} bytes" in read_keymap(keys_file).problems[0]
    keys_file.unlink()
    keys_file.mkdir()
    assert "cannot be read" in read_keymap(keys_file).problems[0]


def test_a_key_of_two_actions_is_a_conflict_if_both_can_be_active(keys_file: Path) -> None:
    keys_file.write_text('"logs.level" = "ctrl+q"\n"clients.sort" = "l"\n"statistics.sort" = "/"\n')
    listed = [(each.key, each.action, each.other) for each in read_keymap(keys_file).conflicts]
    assert ("ctrl+q", "logs.level", "app.ask_quit") in listed
    assert ("/", "statistics.sort", "statistics.filter") in listed
    assert not any(action == "clients.sort" for _, action, _ in listed), "`l` is a key of other screens only"


@pytest.mark.parametrize("key", ["g", "]", "right_square_bracket", "v"])
def test_a_key_that_hides_sequences_is_a_conflict_with_each_of_them(keys_file: Path, key: str) -> None:
    keys_file.write_text(f'"logs.filter" = "{key}"\n')
    shown = "]" if len(key) > 1 else key
    hidden = {(each.action, each.other, each.hidden) for each in read_keymap(keys_file).conflicts}
    expected = {
        "g": ("logs.filter", "main.servers", "g s"),
        "]": ("logs.filter", "logs.next_bad(1)", "] e"),
        "v": ("logs.filter", "logs.level", "v l"),
    }
    assert expected[shown] in hidden
    assert not any(other.startswith("clients.") for _, other, _ in hidden), "these are not active there"
    texts = [str(each) for each in read_keymap(keys_file).conflicts]
    assert "{0} of {1} hides {3} of {2}".format(shown, *expected[shown]) in texts


def test_a_key_and_a_sequence_that_the_file_gives_to_two_actions_are_a_conflict(keys_file: Path) -> None:
    keys_file.write_text('"main.servers" = "f9"\n"logs.copy" = "v"\n"logs.filter" = "v f"\n')
    texts = [str(each) for each in read_keymap(keys_file).conflicts]
    assert "v of logs.copy hides v f of logs.filter" in texts


def test_two_entries_that_swap_keys_are_no_conflict(keys_file: Path) -> None:
    keys_file.write_text('"clients.filter" = "s"\n"clients.sort" = "/"\n')
    assert read_keymap(keys_file).conflicts == []


async def test_a_desk_uses_the_keys_of_the_file_and_shows_them(keys_file: Path) -> None:
    keys_file.write_text(
        '"app.show_help" = "f9"\n"main.show_screen(\'traffic\')" = "7"\n"app.ask_quit" = []\n'
    )
    async with running_frame() as (app, pilot):
        await pilot.press("question_mark")
        assert app.screen is app.main, "the old key opens no help"
        await pilot.press("f9")
        assert app.screen is not app.main
        await pilot.press("escape", "7")
        assert app.main.shown == "traffic"
        assert BY_ID["app.show_help"].keys == "f9"
        assert BY_ID["main.show_screen('traffic')"].keys == "7"
        await pilot.press("ctrl+q")
        assert app.is_running and app.screen is app.main


@pytest.mark.slow
async def test_the_next_desk_without_the_file_has_the_usual_keys(keys_file: Path) -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("question_mark")
        assert app.screen is not app.main
        assert BY_ID["app.show_help"].keys == "question_mark,f1"


async def test_a_key_that_hides_sequences_is_reported_at_the_start(keys_file: Path) -> None:
    keys_file.write_text('"logs.filter" = "g"\n')
    async with running_frame() as (app, _):
        assert any(
            text == "keys.toml: g of logs.filter hides g s of main.servers" for _, _, text in app.news_log
        )


async def test_a_broken_file_is_reported_on_the_desk(keys_file: Path) -> None:
    keys_file.write_text('"logs.levl" = "x"\n')
    async with running_frame() as (app, _):
        assert any("keys.toml, line 1: no action has the id" in text for _, _, text in app.news_log)
