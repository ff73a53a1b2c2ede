"""API key of a desk: required where needed, created once, private, and compared as a whole."""

from __future__ import annotations

import logging
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcpdesk.auth.api_key import FILE_NAME, is_required, load_or_create
from mcpdesk.auth.principal import matches


def test_key_is_made_once_and_kept(tmp_path: Path) -> None:
    state = tmp_path / "state"
    key = load_or_create(state)
    assert len(key) >= 32
    assert load_or_create(state) == key


def test_key_file_is_private(tmp_path: Path) -> None:
    load_or_create(tmp_path / "state")
    path = tmp_path / "state" / FILE_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == [FILE_NAME]


def test_key_others_could_read_is_replaced(tmp_path: Path) -> None:
    exposed = load_or_create(tmp_path)
    (tmp_path / FILE_NAME).chmod(0o644)
    fresh = load_or_create(tmp_path)
    assert fresh != exposed
    assert load_or_create(tmp_path) == fresh


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe"])
def test_unusable_key_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(content)
    path.chmod(0o600)
    key = load_or_create(tmp_path)
    assert key and load_or_create(tmp_path) == key


def test_desks_starting_together_agree_on_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: load_or_create(tmp_path), range(8)))
    assert set(keys) == {load_or_create(tmp_path)}


def test_folder_that_cannot_be_written_costs_only_the_keeping(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING):
        key = load_or_create(tmp_path / "file" / "state")
    assert key
    assert "cannot be stored" in caplog.text


@pytest.mark.parametrize("given", [None, "", "secre", "secret1", "SECRET", "sécret", "\udcff"])
def test_wrong_key_does_not_match(given: str | None) -> None:
    assert not matches(given, "secret")


def test_right_key_matches() -> None:
    assert matches("secret", "secret")


@pytest.mark.requirement("12.2")
@pytest.mark.parametrize(
    ("runs_programs", "over_tcp", "no_auth", "configured", "due"),
    [
        (False, True, False, False, False),
        (True, True, False, False, True),
        (True, False, False, False, False),
        (True, True, True, False, False),
        (False, True, False, True, True),
        (False, False, False, True, True),
        (True, True, True, True, False),
    ],
)
def test_key_is_due_when_programs_can_be_run_or_one_was_configured(
    runs_programs: bool, over_tcp: bool, no_auth: bool, configured: bool, due: bool
) -> None:
    assert (
        is_required(runs_programs=runs_programs, over_tcp=over_tcp, no_auth=no_auth, configured=configured)
        is due
    )
