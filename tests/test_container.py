"""The Dockerfile of docs/deploy: its names exist, and its steps make an image that serves."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpdesk.cli.main import COMMANDS
from mcpdesk.settings import BY_VARIABLE
from tests.support.dockerfile import BUILD, IMAGE
from tests.support.features import having
from tests.support.patience import WITHIN_S
from tests.support.ports import free_port

ROOT = Path(__file__).parent.parent
HELLO = ROOT / "sample_servers" / "hello"
BIN = Path(sys.executable).parent
FOLDERS = ("/opt/mcpdesk", "/server", "/state")
"""Folders of the image that its steps make."""


def test_both_stages_have_the_same_python() -> None:
    assert BUILD.values("FROM")[0].split()[0] == IMAGE.values("FROM")[0]


def test_the_image_is_served_by_a_user_without_rights_on_a_root_that_is_not_written() -> None:
    user, group = IMAGE.last("USER").split(":")
    assert int(user) >= 10_000 and int(group) >= 10_000  # numbers, which `runAsNonRoot` can check
    (volume,) = json.loads(IMAGE.last("VOLUME"))
    assert f"install -d -o {user} -g {group} {volume}" in IMAGE.values("RUN")
    variables = IMAGE.environment
    assert variables["HOME"] == volume and variables["MCPDESK_STATE_DIR"].startswith(f"{volume}/")
    assert variables["MCPDESK_CAPTURE"] == "false" and variables["PYTHONDONTWRITEBYTECODE"] == "1"
    names = [each.name for each in IMAGE.instructions]
    assert names.index("USER") > max(at for at, name in enumerate(names) if name in ("RUN", "COPY"))


def test_commands_variables_and_paths_of_the_dockerfile_exist() -> None:
    ours = {name for name in IMAGE.environment if name.startswith("MCPDESK_")}
    assert ours and ours <= set(BY_VARIABLE)
    command = json.loads(IMAGE.last("CMD"))
    assert command[:2] == ["mcpdesk", "serve"] and command[1] in COMMANDS
    assert command[command.index("--port") + 1] == IMAGE.last("EXPOSE")
    assert f"127.0.0.1:{IMAGE.last('EXPOSE')}/health" in IMAGE.last("HEALTHCHECK")
    checked = [each for each in BUILD.values("RUN") if "/bin/mcpdesk " in each]
    assert [each.split()[1] for each in checked] == ["check"]
    assert set(having("contract", "check")) <= set(COMMANDS)
    copied = {each.split()[-1] for each in (*BUILD.values("COPY"), *IMAGE.values("COPY"))}
    assert copied | {"/state"} == set(FOLDERS)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Root of the image, made by the steps of the Dockerfile, whose absolute paths lie below it.

    The packages are those of the tests' environment; only mcpdesk itself is installed.
    """
    place = tmp_path_factory.mktemp("image")
    context = tmp_path_factory.mktemp("context")
    shutil.copytree(HELLO, context / "server", ignore=shutil.ignore_patterns("__pycache__"))
    default = re.fullmatch(r'MCPDESK="mcpdesk(\[\w+\])"', BUILD.values("ARG")[0])
    assert default is not None
    environ = {
        **os.environ, "MCPDESK": f"{ROOT}{default[1]}", "REQUIREMENTS": "", "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1", "PATH": f"{BIN}:/usr/bin:/bin",
        "MCPDESK_STATE_DIR": str(place / "build-state"),
    }  # fmt: skip
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for step in (*BUILD.instructions, *IMAGE.instructions):
        if step.name == "RUN":
            done = subprocess.run(
                ["sh", "-euc", below(place, step.value)],
                env=environ, cwd=context, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=300, check=False,
            )  # fmt: skip
            assert done.returncode == 0, f"{step.value}\n{done.stdout}\n{done.stderr}"
            site = place / "opt/mcpdesk/lib" / version / "site-packages"
            (site / "required.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        elif step.name == "COPY" and "--from" not in step.value:
            source, target = step.value.split()
            shutil.copytree(context / source, below(place, target))
    yield place


def below(place: Path, text: str) -> str:
    """A command of the image, or a path, with the folders of the image below `place`."""
    text = text.replace("install -d -o 10001 -g 10001", "install -d")  # only root can give it away
    pattern = "|".join(re.escape(each) for each in FOLDERS)
    return re.sub(rf"(?<![\w.])(?:{pattern})\b", lambda found: f"{place}{found[0]}", text)


def listing(place: Path) -> dict[str, int]:
    """Files below a folder with their times of change."""
    return {str(path): path.stat().st_mtime_ns for path in place.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_the_steps_make_an_image_that_is_healthy_and_writes_to_its_volume_alone(root: Path) -> None:
    port = str(free_port())
    environ = {name: below(root, value) for name, value in IMAGE.environment.items()}
    environ |= {"MCPDESK_API_KEY": "a-key-of-a-test", "TMPDIR": str(root / "state")}
    command = [below(root, each).replace("3333", port) for each in json.loads(IMAGE.last("CMD"))]
    check = json.loads(IMAGE.last("HEALTHCHECK").partition(" CMD ")[2])
    check = [each.replace(":3333", f":{port}") for each in check]
    program = str(root / "opt/mcpdesk/bin")
    before = {part: listing(root / part) for part in ("opt", "server")}
    with (root / "log").open("wb") as log:
        process = subprocess.Popen(
            [f"{program}/{command[0]}", *command[1:]],
            env=environ,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stderr=log,
        )
    try:
        deadline = time.monotonic() + WITHIN_S
        while subprocess.run(
            [f"{program}/{check[0]}", *check[1:]], env=environ, capture_output=True, check=False
        ).returncode:
            assert process.poll() is None and time.monotonic() < deadline, (root / "log").read_text()
        assert sys.prefix not in subprocess.check_output(
            [f"{program}/python", "-c", "import mcpdesk; print(mcpdesk.__file__)"], env=environ, text=True
        )
    finally:
        process.terminate()
        code = process.wait()
    assert code == 0, (root / "log").read_text()
    assert {part: listing(root / part) for part in before} == before
    assert (root / "state" / "mcpdesk").is_dir()
    assert not list((root / "state").rglob("*.jsonl"))  # captures are off
