"""Credential of the operator: sessions, sign-in links, and its file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mcpdesk import private_files
from mcpdesk.auth.operator import (
    FOLDER,
    LINK_S,
    MAX_LINKS,
    MAX_SESSIONS,
    SESSION_S,
    Operator,
    credential_file,
)
from mcpdesk.setting_values import FolderUse, SettingKind
from mcpdesk.settings import BY_NAME, resolve


class Clock:
    """A manual clock."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_each_start_has_another_credential_unless_one_is_configured() -> None:
    assert Operator().credential != Operator().credential
    assert Operator("mine").credential == "mine" and Operator("mine").is_configured


def test_a_session_expires_and_is_found_by_both_words_only() -> None:
    clock = Clock()
    operator = Operator("mine", clock)
    session = operator.sign_in("mine")
    assert session is not None
    assert operator.find(session.cookie, session.page_key) == session
    assert operator.find(session.cookie, "") is None and operator.find("", session.page_key) is None
    assert operator.find(session.cookie, session.cookie) is None
    ticket = operator.ticket(session, "job")
    assert operator.accepts_ticket(session.cookie, ticket, "job")
    assert not operator.accepts_ticket(session.cookie, ticket, "another")
    assert not operator.accepts_ticket("", ticket, "job")
    clock.now += SESSION_S + 1
    assert operator.find(session.cookie, session.page_key) is None
    assert not operator.accepts_ticket(session.cookie, ticket, "job")


def test_a_link_signs_in_once_and_not_for_long() -> None:
    clock = Clock()
    operator = Operator("mine", clock)
    word, late = operator.new_link_code(), operator.new_link_code()
    assert operator.sign_in(word) is not None and operator.sign_in(word) is None
    clock.now += LINK_S + 1
    assert operator.sign_in(late) is None


def test_sessions_and_links_are_bounded_and_all_are_revoked_together() -> None:
    operator = Operator("mine")
    sessions = [operator.sign_in("mine") for _ in range(MAX_SESSIONS + 1)]
    links = [operator.new_link_code() for _ in range(MAX_LINKS + 1)]
    assert all(each is not None for each in sessions)
    found = [operator.find(each.cookie, each.page_key) for each in sessions if each is not None]
    assert found[0] is None and None not in found[1:]
    assert operator.sign_in(links[0]) is None and operator.sign_in(links[1]) is not None
    assert operator.revoke_all() == MAX_SESSIONS
    assert operator.revoke_all() == 0 and operator.sign_in(links[2]) is None
    last = sessions[-1]
    assert last is not None and operator.find(last.cookie, last.page_key) is None


def test_a_random_credential_is_kept_for_this_user_while_the_process_runs(tmp_path: Path) -> None:
    operator = Operator()
    with credential_file(tmp_path, operator) as path:
        assert path is not None and path.read_text().strip() == operator.credential
        assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    assert not path.exists()
    with credential_file(tmp_path, Operator("configured")) as none:
        assert none is None
    assert list(path.parent.iterdir()) == []


@pytest.mark.process
def test_files_of_killed_processes_are_deleted_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib\n"
        "from mcpdesk.auth.operator import Operator, credential_file\n"
        "with credential_file(pathlib.Path(sys.argv[1]), Operator()):\n"
        "    print('kept', flush=True)\n"
        "    sys.stdin.read()\n"
        "    os._exit(9)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"kept\n"
        theirs = tmp_path / FOLDER / str(process.pid)
        with credential_file(tmp_path, Operator()):
            assert theirs.exists()
    assert theirs.exists()
    with credential_file(tmp_path, Operator()):
        assert not theirs.exists()


def test_a_state_folder_that_cannot_be_written_costs_only_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with credential_file(tmp_path / "file", Operator()) as path:
        assert path is None


def test_the_setting_is_a_secret_that_no_folder_sets(tmp_path: Path) -> None:
    row = BY_NAME["operator_key"]
    assert row.kind is SettingKind.SECRET and row.folder is FolderUse.NOT
    environment = {"MCPDESK_STATE_DIR": str(tmp_path)}
    env_file = tmp_path / "mcpdesk-env.txt"
    env_file.write_text("MCPDESK_OPERATOR_KEY=theirs\n")
    resolved = resolve({}, environment, tmp_path, {"operator_key": "theirs"})
    assert resolved.settings.operator_key == ""
    configured = resolve({}, environment | {"MCPDESK_OPERATOR_KEY": "mine"}, tmp_path)
    assert configured.settings.operator_key == "mine"


def test_a_file_that_a_starting_process_deletes_before_it_is_held_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, deleted = private_files.hold, list[Path]()

    def slow_hold(descriptor: int) -> None:
        if not deleted:
            [path] = (tmp_path / FOLDER).iterdir()
            assert not private_files.is_held(path)
            path.unlink()
            deleted.append(path)
        hold(descriptor)

    monkeypatch.setattr(private_files, "hold", slow_hold)
    operator = Operator()
    with credential_file(tmp_path, operator) as path:
        assert deleted == [path]
        assert path is not None and path.read_text() == f"{operator.credential}\n"
        assert private_files.is_held(path)
    assert list((tmp_path / FOLDER).iterdir()) == []
