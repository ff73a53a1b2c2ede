"""Two processes of one user find each other by the folder, and no other user can get in between."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mcpdesk.transports import rendezvous


@pytest.fixture(autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime folder of the test's own; not there yet."""
    path = tmp_path_factory.mktemp("run") / "r"
    monkeypatch.setattr(rendezvous, "runtime_folder", lambda: str(path))
    return path


def test_every_name_of_a_folder_leads_to_the_same_point(tmp_path: Path) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    point = rendezvous.folder_socket(folder)
    assert rendezvous.folder_socket(tmp_path / "link") == point
    assert rendezvous.folder_socket(f"{tmp_path}/./profiles/../profiles/") == point
    assert rendezvous.folder_socket(tmp_path) != point


@pytest.mark.process
def test_point_depends_neither_on_environment_nor_on_working_folder(tmp_path: Path) -> None:
    code = f"from mcpdesk.transports.rendezvous import folder_socket as at; print(at({str(tmp_path)!r}))"
    root = str(Path(__file__).parents[2])
    points = {
        subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r}); {code}"],
            cwd=cwd, env=env, capture_output=True, text=True, check=True,
        ).stdout
        for cwd, env in (("/", {}), (str(tmp_path), {"TMPDIR": "/nowhere", "XDG_RUNTIME_DIR": "/run/x"}))
    }  # fmt: skip
    assert len(points) == 1


def test_missing_folder_has_no_point(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        rendezvous.folder_socket(tmp_path / "missing")


def test_runtime_folder_is_private_and_found_again(place: Path) -> None:
    assert rendezvous.private_folder() == str(place)
    assert place.stat().st_mode & 0o777 == 0o700
    assert rendezvous.private_folder() == str(place)


def test_runtime_folder_open_to_others_is_refused(place: Path) -> None:
    place.mkdir()
    place.chmod(0o770)
    with pytest.raises(rendezvous.UntrustedFolder, match="open to other users"):
        rendezvous.private_folder()


def test_http_without_tcp_is_served_among_the_folder_sockets_or_beside_them(place: Path) -> None:
    assert rendezvous.fallback_socket("small") == f"{place}/http-small.sock"
    place.chmod(0o755)
    assert rendezvous.fallback_socket("small") == "/tmp/mcpdesk-small.sock"


def test_runtime_folder_that_is_a_link_is_refused(place: Path, tmp_path: Path) -> None:
    (tmp_path / "other_processes").mkdir(mode=0o700)
    place.symlink_to(tmp_path / "other_processes")
    with pytest.raises(rendezvous.UntrustedFolder, match="not a folder"):
        rendezvous.private_folder()


def test_runtime_folder_of_another_user_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.mkdir(mode=0o700)
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    with pytest.raises(rendezvous.UntrustedFolder, match="another user"):
        rendezvous.private_folder()


def test_nobody_is_found_where_nobody_listens(tmp_path: Path) -> None:
    assert rendezvous.find_desk(tmp_path) is None


def test_listener_is_found_and_gone_after_it_left(tmp_path: Path) -> None:
    taken = rendezvous.listen_for_folder(tmp_path)
    assert taken is not None
    assert os.stat(taken.path).st_mode & 0o777 == 0o600
    connection = rendezvous.find_desk(tmp_path)
    assert connection is not None
    connection.close()
    taken.leave()
    assert not os.path.exists(taken.path)
    assert rendezvous.find_desk(tmp_path) is None


def test_place_of_a_living_core_is_not_taken(tmp_path: Path) -> None:
    taken = rendezvous.listen_for_folder(tmp_path)
    assert taken is not None
    assert rendezvous.listen_for_folder(tmp_path) is None
    connection = rendezvous.find_desk(tmp_path)
    assert connection is not None
    connection.close()
    taken.leave()


def test_other_processes_with_the_same_state_are_found_while_they_live(tmp_path: Path, place: Path) -> None:
    state = str(tmp_path / "state")
    assert rendezvous.state_points(tmp_path, state) == {}
    own = rendezvous.state_point(tmp_path, state)
    rendezvous.private_folder()
    other = own.replace(f".{os.getpid()}.", ".1.")
    taken = [each for point in (own, other) if (each := rendezvous.listen(point)) is not None]
    assert rendezvous.state_points(tmp_path, state) == {1: other}
    assert rendezvous.state_points(tmp_path, str(tmp_path / "other_processes")) == {}
    for each in taken:
        each.listener.close()
    assert rendezvous.state_points(tmp_path, state) == {}
    rendezvous.sweep(str(place))
    assert os.listdir(place) == []


def test_stale_entry_is_cleared(tmp_path: Path) -> None:
    rendezvous.private_folder()
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(rendezvous.folder_socket(tmp_path))
    dead.close()
    assert rendezvous.find_desk(tmp_path) is None
    taken = rendezvous.listen_for_folder(tmp_path)
    assert taken is not None
    taken.leave()


def test_what_killed_cores_left_behind_is_swept_and_nothing_else(place: Path, tmp_path: Path) -> None:
    rendezvous.private_folder()
    for name in ("fe00-1a.sock", "http-desk.sock"):
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(place / name))
    (place / "fe00-2b.sock").write_text("no socket")
    (tmp_path / "other").mkdir()
    living, taken = rendezvous.listen_for_folder(tmp_path / "other"), rendezvous.listen_for_folder(tmp_path)
    assert living is not None and taken is not None
    kept = {"http-desk.sock", "fe00-2b.sock", Path(living.path).name, Path(taken.path).name}
    assert {entry.name for entry in place.iterdir()} == kept
    living.leave()
    taken.leave()


def test_file_in_the_way_is_left_alone(tmp_path: Path) -> None:
    rendezvous.private_folder()
    point = Path(rendezvous.folder_socket(tmp_path))
    point.write_text("mine")
    with pytest.raises(FileExistsError, match="not a socket"):
        rendezvous.listen_for_folder(tmp_path)
    assert point.read_text() == "mine"


def test_entry_that_is_anothers_by_now_is_left_alone(tmp_path: Path) -> None:
    taken = rendezvous.listen_for_folder(tmp_path)
    assert taken is not None
    os.unlink(taken.path)
    second = rendezvous.listen_for_folder(tmp_path)
    assert second is not None
    taken.leave()
    assert os.path.exists(second.path)
    second.leave()


def test_kernel_names_the_process_at_the_other_end() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert rendezvous.peer_credentials(ours) == (os.getpid(), os.getuid())
    assert rendezvous.process_name(os.getpid())
    assert rendezvous.process_name(2**22 + 1) == ""


def test_a_socket_that_another_process_removes_in_the_meantime_is_passed_over(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendezvous.private_folder()
    state = str(tmp_path / "state")
    dead = Path(rendezvous.state_point(tmp_path, state).replace(f".{os.getpid()}.", ".1."))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(dead))
    lstat = os.lstat

    def removed(path: str, *, dir_fd: int | None = None) -> os.stat_result:
        if str(path) == str(dead):
            dead.unlink()
        return lstat(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "lstat", removed)
    assert rendezvous.state_points(tmp_path, state) == {}
    assert not os.path.exists(dead)
