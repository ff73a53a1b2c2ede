"""What the page on many machines has ready to run: each part as far as one machine can run it."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from mcpdesk.settings import BY_VARIABLE
from tests.support.engine import EngineServer, needs_engine, shared_engine
from tests.support.patience import WITHIN_S
from tests.support.ports import free_port
from tests.support.replicas import ReplicaCluster, replica_cluster
from tests.support.session_client import SessionClient, calculator

__all__ = ["shared_engine"]

PAGE = Path(__file__).parents[2] / "docs" / "many-machines.md"
HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin") or ""
STATISTICS = "/statistics"
ANALYZE = shutil.which("systemd-analyze") or ""


def block(title: str) -> str:
    """A file of the page."""
    found = re.search(rf'(?s)```\w+ title="{re.escape(title)}"\n(.*?)\n```', PAGE.read_text())
    assert found is not None
    return found[1] + "\n"


def balanced(replicas: list[int], port: int) -> str:
    """The page's configuration of HAProxy for replicas at these ports of this machine."""
    text = re.sub(r"(?m)^resolvers docker\n  nameserver .*\n", "", block("haproxy.cfg"))
    text = text.replace("bind :8080", f"bind 127.0.0.1:{port}\n  stats uri {STATISTICS}")
    (template,) = re.findall(r"(?m)^  server-template replica 3 mcpdesk:3333 (.*) resolvers docker.*\n", text)
    servers = "".join(f"  server r{each} 127.0.0.1:{each} {template}\n" for each in replicas)
    return re.sub(r"(?m)^  server-template .*\n", servers, text)


@asynccontextmanager
async def haproxy(cluster: ReplicaCluster, place: Path) -> AsyncIterator[str]:
    """HAProxy in front of replicas; gives its URL."""
    port, config = free_port(), place / "haproxy.cfg"
    config.write_text(balanced([each.port for each in cluster.replicas], port))
    process = await asyncio.create_subprocess_exec(HAPROXY, "-db", "-f", str(config), stderr=-3)
    try:
        async with asyncio.timeout(WITHIN_S):
            await _ready(port, len(cluster.replicas))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def _ready(port: int, replicas: int) -> None:
    """Wait until HAProxy has asked that many replicas whether they are ready, and heard that they are."""
    async with aiohttp.ClientSession() as http:
        while True:
            with suppress(aiohttp.ClientError):
                async with http.get(f"http://127.0.0.1:{port}{STATISTICS};csv") as answer:
                    if (await answer.text()).count(",L7OK,") == replicas:
                        return
            await asyncio.sleep(0.05)


@needs_engine
@pytest.mark.slow
@pytest.mark.skipif(not HAPROXY, reason="haproxy is not installed: its configuration was not tried")
async def test_a_session_behind_haproxy_goes_on_when_a_replica_is_replaced(
    tmp_path: Path, shared_engine: EngineServer
) -> None:
    async with (
        replica_cluster(3, [calculator(tmp_path)], shared_engine, tmp_path) as cluster,
        haproxy(cluster, tmp_path) as url,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(WITHIN_S)) as http,
    ):
        cluster.url = url
        client = SessionClient(url, http)
        await client.open()
        ending = asyncio.create_task(asyncio.to_thread(cluster.replicas[0].end))
        for number in range(40):
            result = await client.call("add", a=number, b=1)
            assert result["structuredContent"] == {"result": number + 1}
        assert await ending == 0


def test_the_compose_file_starts_what_there_is_with_settings_there_are() -> None:
    compose: dict[str, Any] = yaml.safe_load(block("compose.yaml"))
    service = compose["services"]["mcpdesk"]
    assert set(service["environment"]) <= set(BY_VARIABLE)
    (command,) = re.findall(r"CMD (\[.*\])", service["build"]["dockerfile_inline"])
    assert yaml.safe_load(command)[:2] == ["mcpdesk", "serve"]
    assert "--appendonly yes" in compose["services"]["engine"]["command"]


def test_the_pods_have_settings_there_are_and_probes_of_endpoints_there_are() -> None:
    deployment, service = yaml.safe_load_all(block("kubernetes.yaml"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    names = {each["name"] for each in container["env"]}
    assert names - {"POD_IP"} <= set(BY_VARIABLE)
    probes = {container[each]["httpGet"]["path"] for each in ("livenessProbe", "readinessProbe")}
    assert probes == {"/health", "/ready"}
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == labels == deployment["spec"]["selector"]["matchLabels"]


@pytest.mark.process
@pytest.mark.skipif(not ANALYZE, reason="systemd-analyze is not installed: the unit was not verified")
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    unit = tmp_path / "mcpdesk@.service"
    unit.write_text(block("mcpdesk@.service").replace("/opt/mcpdesk/bin/mcpdesk", sys.executable))
    done = subprocess.run([ANALYZE, "verify", str(unit)], capture_output=True, text=True, check=False)
    assert "mcpdesk@" not in done.stderr, done.stderr
