"""HAProxy in front of replicas, configured as the page on many machines has it."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest

from tests.support.patience import within
from tests.support.ports import free_port
from tests.support.replicas import ReplicaCluster

PAGE = Path(__file__).parents[2] / "docs" / "many-machines.md"
HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin") or ""
STATISTICS = "/statistics"
BACKENDS = 2
"""Backends of the configuration, each with every replica."""
needs_haproxy = pytest.mark.skipif(
    not HAPROXY, reason="haproxy is not installed: its configuration was not tried"
)


def block(title: str) -> str:
    """A file of the page."""
    match = re.search(rf'(?s)```\w+ title="{re.escape(title)}"\n(.*?)\n```', PAGE.read_text())
    assert match is not None
    return match[1] + "\n"


def balanced(replicas: list[int], port: int) -> str:
    """The page's configuration for replicas at these ports of this machine."""
    text = re.sub(r"(?m)^resolvers docker\n  nameserver .*\n", "", block("haproxy.cfg"))
    text = text.replace("bind :8080", f"bind 127.0.0.1:{port}\n  stats uri {STATISTICS}")

    def servers(template: re.Match[str]) -> str:
        return "".join(f"  server r{each} 127.0.0.1:{each} {template[1]}\n" for each in replicas)

    template = r"(?m)^  server-template replica 3 mcpdesk:3333 (.*) resolvers docker.*\n"
    text, count = re.subn(template, servers, text)
    assert count == BACKENDS
    return text


@asynccontextmanager
async def haproxy(cluster: ReplicaCluster, folder: Path) -> AsyncIterator[str]:
    """Run HAProxy in front of replicas; yield its URL."""
    port, config = free_port(), folder / "haproxy.cfg"
    config.write_text(balanced([each.port for each in cluster.replicas], port))
    process = await asyncio.create_subprocess_exec(HAPROXY, "-db", "-f", str(config), stderr=-3)
    try:
        async with within():
            await all_ready(f"http://127.0.0.1:{port}", len(cluster.replicas))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def all_ready(url: str, replicas: int) -> None:
    """Wait until HAProxy's readiness checks of that many replicas have succeeded."""
    async with aiohttp.ClientSession() as http:
        while True:
            with suppress(aiohttp.ClientError):
                async with http.get(f"{url}{STATISTICS};csv") as answer:
                    if (await answer.text()).count(",L7OK,") == BACKENDS * replicas:
                        return
            await asyncio.sleep(0.05)
