"""A capture on disk is a core that hosts nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.errors import DeskUserError
from mcpdesk.link.capture_link import CaptureLink
from mcpdesk.link.feature_part import Intent
from mcpdesk.link.link import Link
from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture.recording import Recording
from tests.support.traffic import IN, call


def opened(path: Path, *damage: bytes) -> CaptureLink:
    recording = Recording(path)
    recording.start()
    recording.frame(1, IN, call(1, "a"))
    recording.close()
    with path.open("ab") as file:
        file.writelines(damage)
    return CaptureLink(Archive(path))


def test_its_traffic_is_that_of_the_file_and_the_rest_is_empty(tmp_path: Path) -> None:
    link: Link = opened(tmp_path / "a.jsonl")
    assert link.traffic.frame_count == 1 and link.view().capture_path == str(tmp_path / "a.jsonl")
    assert not link.view().servers and not link.catalogue("x").items
    assert not (
        link.questions() or link.logs() or link.notices() or link.validate("x", "y", {}) or link.busy()
    )
    assert not (link.client(1) or link.watched("x") or link.client_config("x", "curl").result(0))
    assert not link.settings().result(0)


def test_it_refuses_requests_to_features(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lacks the feature"):
        opened(tmp_path / "a.jsonl").do(Intent()).result(0)


def test_it_cannot_be_asked_anything(tmp_path: Path) -> None:
    with pytest.raises(DeskUserError, match="cannot be sent to a capture"):
        opened(tmp_path / "a.jsonl").request("x", "ping", {})
    with pytest.raises(DeskUserError, match="cannot be called"):
        opened(tmp_path / "b.jsonl").give_token("x", "t")


@pytest.mark.parametrize(("damage", "said"), [([b'{"n":'], "1 line of"), ([b"x\n", b"y\n"], "2 lines of")])
def test_lines_that_cannot_be_read_are_told_once(damage: list[bytes], said: str, tmp_path: Path) -> None:
    link = opened(tmp_path / "a.jsonl", *damage)
    (notice,) = link.notices()
    assert notice.text.startswith(said) and not link.notices(notice.number)
