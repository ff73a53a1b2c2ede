"""The stages of the dataviz sample: from files to grids to pictures; each program reports its errors."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import subprocess
import sys
from array import array
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec.structs import replace
from PIL import Image

from mcpdesk.hosting.hosted_folder import HostedFolder
from mcpdesk.hosting.journal import Journal
from mcpdesk.paths import sample_servers
from mcpdesk.settings import resolve
from tests.support.served import Peer

FOLDER = sample_servers() / "dataviz"
SAMPLES = FOLDER / "samples"


class Stages:
    """The sample's server, with a peer."""

    def __init__(self, state: Path) -> None:
        self.journal = Journal()
        self.hosted = HostedFolder(FOLDER, resolve({"state_dir": state}, {}).settings, self.journal)
        self.peer = Peer(self.hosted.server)
        self._numbers = count(1)

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        number = next(self._numbers)
        if number == 1:
            await self.peer.shake_hands()
        params = {"name": name, "arguments": arguments, "_meta": {"progressToken": number}}
        self.peer.request(number, "tools/call", params)
        answer = await self.peer.response(number)
        found: dict[str, Any] = answer["result"]
        return found

    def progress(self, number: int) -> list[float]:
        told = [
            each["params"] for each in self.peer.received if each.get("method") == "notifications/progress"
        ]
        return [each["progress"] for each in told if each["progressToken"] == number]


@pytest.fixture
def stages(tmp_path: Path) -> Iterator[Stages]:
    yield Stages(tmp_path / "state")


def program(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", f"programs/{name}.py", *arguments],
        cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def npy(path: Path) -> tuple[tuple[int, int], array[float]]:
    """Shape and values, read in another way than the sample's own."""
    data = path.read_bytes()
    (size,) = struct.unpack_from("<H", data, 8)
    header = data[10 : 10 + size].decode()
    height, width = (int(each) for each in header.partition("'shape': (")[2].partition(")")[0].split(","))
    assert (10 + size) % 64 == 0 and header.endswith("\n")
    return (width, height), array("f", data[10 + size :])


async def test_sample_is_without_fault(stages: Stages) -> None:
    assert stages.journal.lines() == []
    assert [tool.name for tool in stages.hosted.server.tools] == [
        "acquire-terrain", "process-decode-grib2", "process-grid-csv", "visualize-heatmap",
    ]  # fmt: skip
    assert list(stages.hosted.modes) == ["look"]


@pytest.mark.process
async def test_heat_map_of_the_bundled_grid_is_a_picture(stages: Stages, tmp_path: Path) -> None:
    server = stages.hosted.server
    server.limits = replace(server.limits, output_dirs=(tmp_path,))
    target = str(tmp_path / "heatmap.png")
    result = await stages.call("visualize-heatmap", input="samples/demo.npy", output=target)
    assert result["structuredContent"]["exit_code"] == 0, result
    (path,) = map(Path, result["structuredContent"]["output_files"])
    with Image.open(path) as image:
        assert (image.format, image.width) == ("PNG", 960)
        assert len(image.getcolors(1 << 24) or ()) > 500
    assert result["content"][1]["mimeType"] == "image/png"
    assert stages.progress(1) == [0, 1, 2, 3, 4]
    assert "144 x 73 values, -45.68 to 32.34 °C" in result["content"][0]["text"]


@pytest.mark.process
async def test_stages_follow_one_another(stages: Stages) -> None:
    decoded = await stages.call("process-decode-grib2", file_or_url="samples/demo.grib2", celsius=True)
    grid, beside = map(Path, decoded["structuredContent"]["output_files"])
    assert grid.read_bytes() == (SAMPLES / "demo.npy").read_bytes()
    assert json.loads(beside.read_text())["unit"] == "°C"
    assert stages.progress(1)[-1] == 100
    drawn = await stages.call(
        "visualize-heatmap",
        input=str(grid),
        palette="coolwarm",
        contours=True,
        minimum=-40,
        maximum=40,
        title="-x",
    )
    assert drawn["structuredContent"]["stdout"].endswith("drawn from -40 to 40 in coolwarm\n")
    gridded = await stages.call("process-grid-csv", unit="mm", column="rainfall", columns=30, rows=20)
    shape, values = npy(Path(gridded["structuredContent"]["output_files"][0]))
    assert shape == (30, 20) and len(values) == 600
    assert stages.progress(3) == list(range(1, 21))


@pytest.mark.process
async def test_same_seed_gives_the_same_land_and_tells_percentages(stages: Stages) -> None:
    lands = [await stages.call("acquire-terrain", detail=5, seed=seed) for seed in (-3, -3, 4)]
    first, again, other = (npy(Path(each["structuredContent"]["output_files"][0])) for each in lands)
    assert first == again != other
    assert first[0] == (33, 33)
    assert (min(first[1]), max(first[1])) == (-900, 2500)
    assert stages.progress(1)[-1] == 100
    assert lands[0]["structuredContent"]["stdout"].startswith("raised land: 100%\n")


@pytest.mark.process
def test_grid_of_any_plain_kind_is_read(tmp_path: Path) -> None:
    for code, kind, order in (("f8", "d", "<"), ("i2", "h", "<"), ("u1", "B", "|"), ("f4", "f", ">")):
        cells = array(kind, [1, 2, 3, 4, 5, 6])
        if order == ">":
            cells.byteswap()
        header = f"{{'descr': '{order}{code}', 'fortran_order': False, 'shape': (2, 3), }}\n"
        head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
        (tmp_path / "x.npy").write_bytes(head + cells.tobytes())
        made = program("heatmap", "--input", str(tmp_path / "x.npy"), "--output", str(tmp_path / "x.png"))
        assert "3 x 2 values, 1 to 6, mean 3.5" in made.stdout, made.stderr


@pytest.mark.process
def test_grid_with_gaps_and_without_any_difference_are_drawn(tmp_path: Path) -> None:
    for cells in ([float("nan"), 2.0, 3.0, 4.0], [5.0] * 4):
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n"
        head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
        (tmp_path / "x.npy").write_bytes(head + array("f", cells).tobytes())
        made = program("heatmap", "--input", str(tmp_path / "x.npy"), "--output", str(tmp_path / "x.png"))
        assert made.returncode == 0, made.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("heatmap", ["--input", "none.npy"], "heatmap.py: none.npy cannot be read: No such file"),
        ("heatmap", ["--input", "mcp.json"], "mcp.json is not a .npy file"),
        ("decode_grib2", ["--file", "none.grib2"], "none.grib2 cannot be read"),
        (
            "decode_grib2",
            ["--file", "samples/demo.grib2", "--message", "2"],
            "has 1 messages; message 2 does not exist",
        ),
        ("decode_grib2", ["--file", "http://example.org/x"], "only files, https:// and s3:// can be read"),
        ("decode_grib2", ["--file", "https://127.0.0.1/x"], "127.0.0.1 is not a public host"),
        (
            "grid_csv",
            ["--column", "wind", "samples/stations.csv"],
            "no column 'wind'; it has place, longitude",
        ),
        ("grid_csv", ["samples/demo.npy"], "samples/demo.npy: "),
    ],
)
def test_mistake_is_told_in_a_sentence(tmp_path: Path, name: str, arguments: list[str], reason: str) -> None:
    made = program(name, "--output", str(tmp_path / "out"), *arguments)
    assert made.returncode == 1
    assert reason in made.stderr and "Traceback" not in made.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("decode_grib2", ["--file"]), ("heatmap", ["--input"]), ("grid_csv", [])],
)
def test_what_has_no_end_is_no_file(tmp_path: Path, name: str, arguments: list[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in ("/dev/zero", str(tmp_path / "pipe")):
        made = program(name, "--output", str(tmp_path / "out"), *arguments, place)
        assert (made.returncode, made.stderr) == (1, f"{name}.py: {place} is not a regular file\n")


@pytest.mark.process
def test_file_that_is_too_large_is_told(tmp_path: Path) -> None:
    with (tmp_path / "x.npy").open("wb") as file:
        file.truncate(1 << 40)
    made = program("heatmap", "--input", str(tmp_path / "x.npy"), "--output", str(tmp_path / "x.png"))
    assert made.returncode == 1 and "x.npy has more than 536,870,912 bytes" in made.stderr


@pytest.mark.process
@pytest.mark.parametrize("rest", [b"", b"\0\0\0\2", b"\0\0\0\2\0\0\0\0"])
def test_file_that_ends_behind_its_first_letters_is_told(tmp_path: Path, rest: bytes) -> None:
    (tmp_path / "cut.grib2").write_bytes(b"GRIB" + rest)
    made = program("decode_grib2", "--file", str(tmp_path / "cut.grib2"), "--output", str(tmp_path / "out"))
    assert made.returncode == 1 and made.stderr.strip() == "decode_grib2.py: the file is cut off"


@pytest.mark.process
async def test_no_redirect_is_followed_to_where_nobody_looked() -> None:
    seen: list[str] = []

    async def other_processes(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.Response(status=302, headers={"Location": "/secret"})

    async with TestServer(_app(other_processes)) as server:
        fetch = "import sys; from decode_grib2 import *; "
        fetch += "urllib.request.build_opener(NoRedirects).open(sys.argv[1])"
        command = [sys.executable, "-B", "-c", fetch, str(server.make_url("/field.grib2"))]
        made = await asyncio.to_thread(
            subprocess.run, command, cwd=FOLDER / "programs", capture_output=True, text=True, check=False
        )
    assert made.returncode == 1 and "HTTP Error 302" in made.stderr
    assert seen == ["/field.grib2"]


def _app(handler: Any) -> web.Application:
    app = web.Application()
    app.router.add_get("/{path:.*}", handler)
    return app


@pytest.mark.slow
def test_damaged_files_are_told_never_with_a_traceback(tmp_path: Path) -> None:
    dice = Random(5)
    cases = [("decode_grib2", "--file", "demo.grib2"), ("heatmap", "--input", "demo.npy")]
    for name, flag, sample in cases:
        whole = (SAMPLES / sample).read_bytes()
        for number in range(12):
            data = bytearray(whole[: dice.randrange(len(whole))] if number % 3 == 0 else whole)
            for _ in range(dice.randrange(1, 6)):
                if data:
                    data[dice.randrange(min(len(data), 240))] = dice.randrange(256)
            path = tmp_path / f"{number}-{sample}"
            path.write_bytes(data)
            made = program(name, flag, str(path), "--output", str(tmp_path / "out"))
            assert made.returncode in (0, 1) and "Traceback" not in made.stderr, (number, made.stderr)
