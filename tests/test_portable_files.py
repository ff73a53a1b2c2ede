"""File calls that have to mean the same on every system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcpdesk.portable_files import OPEN_FLAGS, is_own, is_shared, read_at, try_lock


@pytest.mark.parametrize("lacks_pread", [False, True])
def test_bytes_are_read_at_an_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks_pread: bool
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one\r\ntwo\r\n")
    if lacks_pread:
        monkeypatch.delattr(os, "pread")
    descriptor = os.open(path, os.O_RDONLY | OPEN_FLAGS)
    try:
        assert [read_at(descriptor, 3, 5), read_at(descriptor, 99, 3)] == [b"two", b"\r\ntwo\r\n"]
        assert read_at(descriptor, 3, 100) == b"" and not os.get_inheritable(descriptor)
    finally:
        os.close(descriptor)


def test_a_lock_is_refused_while_another_file_has_it(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with path.open("wb") as first, path.open("wb") as second:
        assert try_lock(first.fileno()) and not try_lock(second.fileno())
        first.close()
        assert try_lock(second.fileno())


def test_owner_and_access_of_a_file_count_only_where_they_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.touch(0o644)
    path.chmod(0o644)
    status = path.stat()
    assert is_own(status) and is_shared(status)
    other = os.stat_result((*status[:4], os.getuid() + 1, *status[5:10]))
    assert not is_own(other)
    monkeypatch.delattr(os, "getuid")
    assert is_own(other) and not is_shared(status)
