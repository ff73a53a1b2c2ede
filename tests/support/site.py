"""A hand-built server behind a real HTTP listener on 127.0.0.1."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson

from mcpdesk.auth.operator import Operator
from mcpdesk.errors import UnknownMode
from mcpdesk.hosting.endpoint import HostedEndpoint
from mcpdesk.hosting.hosted_jobs import HostedJobs
from mcpdesk.protocol.headers import encode_value
from mcpdesk.protocol.methods import METHODS
from mcpdesk.protocol.phases import Phases
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import request_meta
from mcpdesk.recorder.interceptor import Interceptor
from mcpdesk.recorder.record import CaptureHealth, ConnectionInfo, Direction, HttpNote, RecordedRemark
from mcpdesk.transports.base import PassThrough, Rules
from mcpdesk.transports.http.http_service import HttpService
from mcpdesk.transports.metric import MetricFamily, Sample
from tests.support.http_client import http_client
from tests.support.served import Peer

if TYPE_CHECKING:
    from mcpdesk.hosting.shared_core import SharedCore
    from mcpdesk.link.front_end import FrontEnd
    from mcpdesk.recorder.exchange_watch import ExchangeWatch


class Frames:
    """A recorder that keeps everything in lists."""

    def __init__(self) -> None:
        self.seen: list[tuple[Direction, bytes]] = []
        self.connections: dict[int, ConnectionInfo] = {}
        self.notes: list[HttpNote] = []
        self.remarks: list[RecordedRemark] = []

    def connect(self, info: ConnectionInfo) -> None:
        self.connections[info.number] = info

    def frame(
        self,
        connection: int,
        direction: Direction,
        data: bytes,
        is_json: bool = False,
        note: HttpNote | None = None,
        at: float | None = None,
        phases: Phases | None = None,
        size: int = 0,
        end: bytes = b"",
    ) -> int:
        self.seen.append((direction, data))
        if note is not None:
            self.notes.append(note)
        return len(self.seen) - 1

    def remark(self, remark: RecordedRemark) -> None:
        self.remarks.append(remark)

    def frame_batch(
        self,
        connection: int,
        direction: Direction,
        frames: Sequence[bytes],
        unchecked: Sequence[int] = (),
        note: HttpNote | None = None,
        phases: Mapping[int, Phases] | None = None,
    ) -> int:
        if note is not None:
            self.notes.append(note)
        self.seen += [(direction, data) for data in frames]
        return len(self.seen) - len(frames)


class Served:
    """The site, where it listens, and a client session without any default headers."""

    def __init__(self, rules: Rules, state_dir: Path | None = None) -> None:
        self.peer = Peer()
        self.recorder = Frames()
        self.hosted = HostedEndpoint(self.peer.server, self.peer.services, self.recorder)
        self.interceptor = Interceptor()
        self.rules = rules
        self.uptime_s = 1.5
        self.unready = ""
        self.down_servers: list[str] = []
        self.state_dir = state_dir
        self.shared: SharedCore | None = None
        self.watch: ExchangeWatch | None = None
        self.capture = CaptureHealth(True)
        self.operator = Operator()
        self.feature_options: dict[str, str] = {}
        self.front_end: Callable[[], FrontEnd] | None = None
        self.own_front_end: Callable[[str], FrontEnd] | None = None
        self.url = ""
        self.client: aiohttp.ClientSession
        self.jobs = HostedJobs(self.peer.services.jobs, {self.hosted.name: self.hosted})
        self.service = HttpService(self)

    def endpoint(self, name: str, mode: str = "") -> HostedEndpoint | None:
        if mode:
            raise UnknownMode(self.hosted.name, mode, ())
        return self.hosted if name in ("", self.hosted.name) else None

    @property
    def pass_throughs(self) -> dict[str, PassThrough]:
        return {}

    def endpoints(self) -> list[HostedEndpoint]:
        return [self.hosted]

    def figures(self) -> Callable[[], list[MetricFamily]]:
        return lambda: [MetricFamily("things", "gauge", "Things.", [Sample(2, {"kind": 'a "b"'})])]

    async def post(self, message: Any, **headers: str) -> aiohttp.ClientResponse:
        """POST a message; keyword names become header names."""
        body = message if isinstance(message, bytes) else orjson.dumps(message)
        named = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.post(f"{self.url}/mcp/sample", data=body, headers=named)

    async def modern(
        self, method: str, params: dict[str, Any] | None = None, identifier: Any = 1, **headers: str
    ) -> aiohttp.ClientResponse:
        """POST a request of the stateless era with the headers it needs; keywords override them."""
        params = params or {}
        meta = request_meta(V2026_07_28, {"name": "tester", "version": "1"}) | params.get("_meta", {})
        params = params | {"_meta": meta}
        routing = {"MCP_Protocol_Version": V2026_07_28.name, "Mcp_Method": method}
        row = METHODS.get(method)
        if row is not None and row.routing_field and row.routing_field in params:
            routing["Mcp_Name"] = encode_value(str(params[row.routing_field]))
        message = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params}
        return await self.post(message, **(routing | headers))

    async def session(self, revision: str = "2025-11-25") -> dict[str, str]:
        """Shake hands; returns the headers of everything that follows."""
        params = {
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        answer = await self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        headers = {"Mcp_Session_Id": answer.headers["Mcp-Session-Id"], "MCP_Protocol_Version": revision}
        done = await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **headers)
        assert done.status == 202
        return headers


@asynccontextmanager
async def serving(rules: Rules | None = None, state_dir: Path | None = None) -> AsyncIterator[Served]:
    """Serve until the block ends."""
    served = Served(rules or Rules(), state_dir)
    service = served.service
    port = await service.listen_tcp("127.0.0.1", 0, False)
    served.url = f"http://127.0.0.1:{port}"
    try:
        async with http_client() as client:
            served.client = client
            yield served
    finally:
        await service.close()


def events(text: str) -> list[dict[str, Any]]:
    """The messages of an event stream's text."""
    return [orjson.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
