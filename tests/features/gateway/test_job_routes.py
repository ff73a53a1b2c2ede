"""Jobs over HTTP: state, result, and progress while they run."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import time
import zipfile
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote

import aiohttp
import orjson
import pytest
from aiohttp import web

from mcpdesk.auth.principal import Principal
from mcpdesk.jobs import downloads
from mcpdesk.jobs.downloads import Download
from mcpdesk.server.background import job_work
from mcpdesk.transports.base import Rules
from mcpdesk.transports.http.job_routes import disposition, requested_range, send
from tests.support.gateway import gateway, sent
from tests.support.patience import WITHIN_S, until, within
from tests.support.rude import PING, closing_code, frame, upgraded
from tests.transports.http.listening import listening

KEYED = Rules(api_key="open-sesame")
STATES = ["queued", "running", "succeeded", "failed", "canceled"]


async def heard(ws: Any) -> list[dict[str, Any]]:
    """All messages of a job's WebSocket until it closes."""
    said = []
    async with within():
        async for came in ws:
            said.append(orjson.loads(came.data))
    return said


async def test_a_job_tells_how_it_stands_from_its_beginning_to_its_end() -> None:
    async with gateway() as gate:
        job = await gate.begin("deep-wait")
        name = job["job_id"]
        assert {key: job[key] for key in ("poll", "ws", "download", "manifest")} == {
            "poll": f"/jobs/{name}", "ws": f"/ws/jobs/{name}",
            "download": f"/jobs/{name}/download", "manifest": f"/jobs/{name}/manifest",
        }  # fmt: skip
        await gate.gates.started.wait()
        facts = await gate.get(job["poll"])
        assert (facts["status"], facts["progress"], facts["message"]) == ("running", 0.25, "waiting")
        assert facts["exit_code"] is None and facts["finished_at"] is None and "result" not in facts
        assert facts["created_at"] <= facts["started_at"]
        gate.gates.go_on.set()
        facts = await gate.over(job)
        assert (facts["status"], facts["exit_code"], facts["progress"]) == ("succeeded", 0, 1.0)
        assert facts["stdout"] == "continued" and facts["finished_at"] >= facts["started_at"]
        assert facts["result"]["content"] == [{"type": "text", "text": "continued"}]
        assert facts == await gate.get(f"/v1{job['poll']}")


async def test_any_tool_runs_as_a_job() -> None:
    async with gateway() as gate:
        for tool in ("echo", "person", "steps", "nothing", "boom", "unsendable", "brief", "deep-exit"):
            facts = await gate.over(await gate.begin(tool, {"text": "hi"}))
            failed = tool in ("nothing", "boom", "unsendable", "brief", "deep-exit")
            assert facts["status"] == ("failed" if failed else "succeeded"), facts
            assert (facts["exit_code"] == 0) is not failed
        assert facts["error"]["code"] == -32000 and facts["error"]["data"]["stderr"] == "no such file"
        assert facts["result"]["isError"] is True


async def test_the_output_of_a_program_is_told_while_it_runs_and_not_twice() -> None:
    async with gateway() as gate:
        job = await gate.begin("deep-talk")
        await until(gate.gates.started.is_set)
        assert (await gate.get(job["poll"]))["stdout"] == "line 0\nline 1\nline 2\n"
        gate.gates.go_on.set()
        facts = await gate.over(job)
        assert facts["stdout"] == "line 0\nline 1\nline 2\n" and facts["stderr"] == "careful\n"
        assert facts["result"]["structuredContent"]["stdout"] == "all of it"


async def test_a_result_that_cannot_be_kept_is_left_out_and_said_so() -> None:
    async with gateway() as gate:
        gate.served.peer.services.jobs._max_kept_bytes = 1 << 20
        facts = await gate.over(await gate.begin("make-huge", {"size": 2 << 20}))
        assert facts["status"] == "succeeded" and "result" not in facts
        assert facts["message"] == job_work.DROPPED


async def test_cancelling_ends_the_work_once() -> None:
    async with gateway() as gate:
        job = await gate.begin("deep-wait")
        await gate.gates.started.wait()
        answers = await asyncio.gather(*(gate.status("DELETE", job["poll"]) for _ in range(8)))
        assert sorted(answers) == [200] + [409] * 7
        assert (await gate.get(job["poll"]))["status"] == "canceled"
        await until(lambda: gate.gates.ended)
        assert gate.gates.ended == ["wait"]
        assert "deep-wait" not in str([each.get_name() for each in asyncio.all_tasks()])


async def test_a_job_that_waits_for_its_turn_is_queued_and_can_be_cancelled() -> None:
    async with gateway(jobs_at_once=1) as gate:
        first = await gate.begin("deep-wait")
        await gate.gates.started.wait()
        second, third = await gate.begin("echo", {"text": "2"}), await gate.begin("echo", {"text": "3"})
        assert [(await gate.get(each["poll"]))["status"] for each in (second, third)] == ["queued", "queued"]
        assert await gate.status("DELETE", second["poll"]) == 200
        gate.gates.go_on.set()
        assert [(await gate.over(each))["status"] for each in (first, third)] == ["succeeded", "succeeded"]
        assert (await gate.get(second["poll"]))["started_at"] is None


@pytest.mark.parametrize("identifier", ["nothing", "x" * 64, "x" * 65, "a/b", "%2e%2e", "..", "", "ü"])
async def test_ids_that_are_none_lead_nowhere(identifier: str) -> None:
    async with gateway() as gate:
        for path in (
            "/jobs/{}",
            "/jobs/{}/manifest",
            "/jobs/{}/download",
            "/v1/mcp/progress/{}",
            "/ws/jobs/{}",
        ):
            assert await gate.status("GET", path.format(quote(identifier, safe="%/"))) == 404, path
        assert await gate.status("DELETE", f"/jobs/{quote(identifier, safe='%/')}") == 404


async def test_jobs_of_others_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async with gateway() as gate:
        job = await gate.begin("deep-wait")
        jobs = gate.served.jobs
        ada, eve = Principal("token", "ada", identity="ada"), Principal("token", "eve", identity="eve")
        store = gate.served.peer.services.jobs
        (kept,) = store._jobs.values()
        kept.owner = job_work.job_owner(ada)
        assert jobs.find(job["job_id"], ada) is not None and jobs.find(job["job_id"], eve) is None
        for method, path in (
            ("GET", job["poll"]), ("DELETE", job["poll"]), ("GET", job["manifest"]), ("GET", job["download"]),
            ("GET", f"/v1/mcp/progress/{job['job_id']}"), ("GET", job["ws"]),
        ):  # fmt: skip
            assert await gate.status(method, path) == 404
        assert not kept.is_over


async def test_without_the_key_jobs_are_not_shown() -> None:
    async with gateway(rules=KEYED) as gate:
        job = await gate.begin("deep-wait", X_API_Key="open-sesame")
        for method, path in (
            ("GET", job["poll"]), ("DELETE", job["poll"]), ("GET", job["manifest"]), ("GET", job["download"]),
            ("GET", f"/v1/mcp/progress/{job['job_id']}"), ("GET", job["ws"]),
        ):  # fmt: skip
            assert await gate.status(method, path) == 401
            query = await gate.status(method, f"{path}?api_key=open-sesame")
            assert query == (426 if path == job["ws"] else 401)
        gate.gates.go_on.set()
        ws = await gate.client.ws_connect(f"{gate.url}{job['ws']}?api_key=open-sesame")
        assert (await heard(ws))[-1]["status"] == "succeeded"


@pytest.mark.parametrize(
    ("method", "path"), [("POST", ""), ("PUT", "/download"), ("DELETE", "/manifest"), ("POST", "/manifest")]
)
async def test_other_verbs_are_refused(method: str, path: str) -> None:
    async with gateway() as gate:
        job = await gate.begin("echo", {"text": "a"})
        answer = await gate.client.request(method, gate.url + job["poll"] + path)
        assert answer.status == 405 and "GET" in answer.headers["Allow"]


async def test_finished_jobs_are_forgotten_after_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    async with gateway(job_ttl_s=60) as gate:
        monkeypatch.setattr(gate.served.peer.services.jobs, "_clock", lambda: now)
        job = await gate.begin("deep-wait")
        now += 61
        assert (await gate.get(job["poll"]))["status"] == "running"
        gate.gates.go_on.set()
        assert (await gate.over(job))["status"] == "succeeded"
        now += 59
        assert (await gate.get(job["poll"]))["status"] == "succeeded"
        now += 2
        await gate.get(job["poll"], 404)


async def test_a_manifest_lists_files_with_size_and_digest(tmp_path: Path) -> None:
    async with gateway(tmp_path) as gate:
        job = await gate.begin("make-file", {"names": ["a.txt", "sub/b ü.txt"], "size": 7})
        facts = await gate.over(job)
        assert facts["output_file"] == f"/v1/jobs/{job['job_id']}/download"
        manifest = await gate.get(job["manifest"])
        assert manifest["status"] == "succeeded" and manifest["total_bytes"] == 14
        assert [each["name"] for each in manifest["files"]] == ["a.txt", "sub/b ü.txt"]
        for each in manifest["files"]:
            content = (tmp_path / each["name"]).read_bytes()
            assert each["size"] == 7 and each["sha256"] == hashlib.sha256(content).hexdigest()
            answer = await gate.client.get(gate.url + each["download"])
            assert answer.status == 200 and await answer.read() == content


async def test_one_file_is_downloaded_as_it_is(tmp_path: Path) -> None:
    async with gateway(tmp_path) as gate:
        job = await gate.begin("make-file", {"names": ["wärme.png"], "size": 300_000})
        await gate.over(job)
        for path in (job["download"], f"/v1{job['download']}"):
            answer = await gate.client.get(gate.url + path)
            body = await answer.read()
            assert answer.status == 200 and body == (tmp_path / "wärme.png").read_bytes()
            assert answer.content_type == "image/png" and answer.content_length == 300_000
            assert answer.headers["Content-Disposition"] == (
                "attachment; filename=\"w_rme.png\"; filename*=UTF-8''w%C3%A4rme.png"
            )
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
        head = await gate.client.head(gate.url + job["download"])
        assert head.status == 200 and head.content_length == 300_000 and await head.read() == b""


async def test_several_files_come_in_an_archive(tmp_path: Path) -> None:
    async with gateway(tmp_path) as gate:
        job = await gate.begin("make-file", {"names": ["a.txt", "sub/b.txt"], "size": 7})
        await gate.over(job)
        answer = await gate.client.get(gate.url + job["download"])
        assert answer.content_type == "application/zip" and ".zip" in answer.headers["Content-Disposition"]
        body = await answer.read()
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            assert {each: archive.read(each) for each in archive.namelist()} == {
                "a.txt": b"a.txt:a", "sub/b.txt": b"sub/b.t",
            }  # fmt: skip
        rest = await gate.client.get(
            gate.url + job["download"], headers={"Range": "bytes=10-", "If-Range": answer.headers["ETag"]}
        )
        assert rest.status == 206 and await rest.read() == body[10:]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("asked", "status", "body", "told"),
    [
        ("bytes=0-4", 206, b"out.t", "bytes 0-4/20"),
        ("bytes=15-", 206, b":out.", "bytes 15-19/20"),
        ("bytes=-3", 206, b"ut.", "bytes 17-19/20"),
        ("bytes=18-100", 206, b"t.", "bytes 18-19/20"),
        ("bytes=-1000", 206, b"out.txt:out.txt:out.", "bytes 0-19/20"),
        ("Bytes = 5 - 5", 206, b"x", "bytes 5-5/20"),
        ("bytes=20-", 416, None, "bytes */20"),
        ("bytes=-0", 416, None, "bytes */20"),
        ("bytes=5-2", 200, b"out.txt:out.txt:out.", None),
        ("bytes=0-1,4-5", 200, b"out.txt:out.txt:out.", None),
        ("lines=1-2", 200, b"out.txt:out.txt:out.", None),
        ("bytes=0-" + "9" * 40, 200, b"out.txt:out.txt:out.", None),
    ],
)
async def test_a_range_of_a_file(
    tmp_path: Path, asked: str, status: int, body: bytes | None, told: str | None
) -> None:
    async with gateway(tmp_path) as gate:
        job = await gate.begin("make-file", {"size": 20})
        await gate.over(job)
        answer = await gate.client.get(gate.url + job["download"], headers={"Range": asked})
        assert answer.status == status and answer.headers.get("Content-Range") == told
        assert answer.headers.get("Accept-Ranges", "bytes") == "bytes"
        if body is not None:
            assert await answer.read() == body


async def test_what_a_client_has_already_is_not_sent_again(tmp_path: Path) -> None:
    async with gateway(tmp_path) as gate:
        job = await gate.begin("make-file", {"size": 20})
        await gate.over(job)
        tag = (await gate.client.get(gate.url + job["download"])).headers["ETag"]
        again = await gate.client.get(gate.url + job["download"], headers={"If-None-Match": f'"x", {tag}'})
        assert again.status == 304 and await again.read() == b""
        other = {"Range": "bytes=0-1", "If-Range": '"another"'}
        assert await gate.status("GET", job["download"], headers=other) == 200


async def test_files_outside_of_what_may_be_given_out_are_not(tmp_path: Path) -> None:
    folder, other = tmp_path / "server", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    (other / "secret").write_text("secret")
    (folder / "link").symlink_to(other / "secret")
    outside = [str(other / "secret"), "../other/secret", "link", "/etc/hostname", "missing", "."]
    async with gateway(folder) as gate:
        job = await gate.begin("make-file", {"names": ["a.txt"], "outside": outside})
        await gate.over(job)
        assert [each["name"] for each in (await gate.get(job["manifest"]))["files"]] == ["a.txt"]
        for name in (*outside, "%2e%2e/other/secret", "a.txt/../../other/secret"):
            assert await gate.status("GET", f"{job['download']}?file={quote(name, safe='%')}") == 404
    async with gateway(folder, output_dirs=(other,)) as gate:
        job = await gate.begin("make-file", {"names": [], "outside": outside})
        await gate.over(job)
        assert [each["name"] for each in (await gate.get(job["manifest"]))["files"]] == ["secret"]


async def test_a_file_that_was_there_before_is_not_given_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "MAX_CLOCK_DIFFERENCE_S", 0.0)
    (tmp_path / "mcpdesk-env.txt").write_text("SECRET=1")
    async with gateway(tmp_path) as gate:
        job = await gate.begin("make-file", {"names": [], "outside": ["mcpdesk-env.txt"]})
        await gate.over(job)
        assert (await gate.get(job["manifest"]))["files"] == []
        await gate.get(job["download"], 404)


async def test_a_file_that_another_job_wrote_since_is_gone(tmp_path: Path) -> None:
    async with gateway(tmp_path) as gate:
        first = await gate.begin("make-file", {"size": 5})
        await gate.over(first)
        await gate.over(await gate.begin("make-file", {"size": 6}))
        await gate.get(first["download"], 410)
        (listed,) = (await gate.get(first["manifest"]))["files"]
        assert listed["sha256"] is None and "changed" in listed["problem"]
        (tmp_path / "out.txt").unlink()
        await gate.get(first["download"], 410)


async def test_there_is_nothing_to_download_before_the_end_or_without_files() -> None:
    async with gateway() as gate:
        job = await gate.begin("deep-wait")
        assert (await gate.get(job["download"], 409))["state"] in ("queued", "running")
        assert (await gate.get(job["manifest"]))["files"] == []
        gate.gates.go_on.set()
        await gate.over(job)
        await gate.get(job["download"], 404)


async def test_an_event_comes_within_its_interval_and_the_end_at_once() -> None:
    async with gateway() as gate:
        job = await gate.begin("deep-wait")
        answer = await gate.client.get(f"{gate.url}/v1/mcp/progress/{job['job_id']}?interval_ms=60000")
        assert sent((await answer.content.readuntil(b"\n\n")).decode())[0]["status"] in ("queued", "running")
        gate.gates.go_on.set()
        began = time.monotonic()
        assert sent((await answer.content.read()).decode())[-1]["status"] == "succeeded"
        assert time.monotonic() - began < WITHIN_S


@pytest.mark.parametrize(
    "query",
    ["interval_ms=0", "interval_ms=9", "interval_ms=60001", "interval_ms=x", "interval_ms=",
     "interval_ms=1e3", "interval_ms=-5", "max_ms=-1", "max_ms=x", "max_ms=99999999999999999999"],
)  # fmt: skip
async def test_other_numbers_are_refused_with_what_is_allowed(query: str) -> None:
    async with gateway() as gate:
        job = await gate.begin("echo", {"text": "a"})
        refused = await gate.get(f"/v1/mcp/progress/{job['job_id']}?{query}", 400)
        assert query.partition("=")[0] in refused["error"] and " to " in refused["error"]


@pytest.mark.parametrize(
    ("chosen", "kinds"),
    [
        ("", {"stdout", "stderr", "progress"}),
        ("?stream=stdout,stderr,progress", {"stdout", "stderr", "progress"}),
        ("?stream=stdout", {"stdout"}),
        ("?stream=stderr", {"stderr"}),
        ("?stream=progress", {"progress"}),
        ("?stream=", set()),
    ],
)
async def test_a_socket_tells_the_kinds_it_was_asked_for_and_the_end(chosen: str, kinds: set[str]) -> None:
    async with gateway() as gate:
        job = await gate.begin("deep-talk")
        ws = await gate.client.ws_connect(gate.url + job["ws"] + chosen)
        gate.gates.go_on.set()
        said = await heard(ws)
        found = {key for each in said for key in each} & {"stdout", "stderr", "progress"}
        assert found == kinds
        assert said[-1]["status"] == "succeeded" and said[-1]["exit_code"] == 0
        assert ws.close_code == aiohttp.WSCloseCode.OK


async def test_unknown_kinds_and_plain_requests_are_refused() -> None:
    async with gateway() as gate:
        job = await gate.begin("deep-wait")
        refused = await gate.get(f"{job['ws']}?stream=stdout,logs", 400)
        assert "logs" in refused["error"] and "stderr" in refused["error"]
        assert await gate.status("GET", job["ws"]) == 426


async def test_a_listener_that_leaves_ends_nothing() -> None:
    async with gateway() as gate:
        job = await gate.begin("deep-wait")
        ws = await gate.client.ws_connect(gate.url + job["ws"])
        stream = await gate.client.get(f"{gate.url}/v1/mcp/progress/{job['job_id']}?interval_ms=10")
        await ws.receive(WITHIN_S)
        await ws.close()
        stream.close()
        (kept,) = gate.served.peer.services.jobs._jobs.values()
        await until(lambda: not kept.listeners)
        async with upgraded(gate.served, job["ws"]) as (reader, writer):
            writer.write(frame(PING, b"a", masked=False))
            assert await closing_code(reader) == 1002
        await until(lambda: not kept.listeners)
        assert (await gate.get(job["poll"]))["status"] == "running"


def test_a_range_of_nothing_but_room_is_read_over_once() -> None:
    began = time.process_time()
    assert requested_range(f"bytes={' ' * 100_000}x", 100) is None
    assert time.process_time() - began < WITHIN_S


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("heat.png", 'attachment; filename="heat.png"'),
        ("heat map (1).png", 'attachment; filename="heat map (1).png"'),
        ("wärme.png", "attachment; filename=\"w_rme.png\"; filename*=UTF-8''w%C3%A4rme.png"),
        ('a"b\r\nX: y', "attachment; filename=\"a_b__X_ y\"; filename*=UTF-8''a%22b%0D%0AX%3A%20y"),
        ("..\\a", "attachment; filename=\".._a\"; filename*=UTF-8''..%5Ca"),
        ("", "attachment; filename=\"file\"; filename*=UTF-8''"),
    ],
)
def test_a_name_cannot_leave_its_header(name: str, header: str) -> None:
    assert disposition(name) == header


async def test_a_file_stays_open_until_a_read_nobody_waits_for_any_more_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"0123456789")
    descriptor = os.open(path, os.O_RDONLY)
    begun, go_on = Event(), Event()
    pread, seen, serving = os.pread, list[bytes](), list[asyncio.Task[None] | None]()

    def slow(descriptor: int, length: int, position: int) -> bytes:
        begun.set()
        go_on.wait(WITHIN_S)
        seen.append(pread(descriptor, length, position))
        return seen[-1]

    def is_open() -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), path.stat())
        except OSError:
            return False

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        serving.append(asyncio.current_task())
        return await send(request, Download(descriptor, 10, "large", "text/plain", "tag"))

    monkeypatch.setattr(os, "pread", slow)
    async with listening(handle) as connect:
        _, client = await connect()
        client.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await until(begun.is_set)
        (task,) = serving
        assert task is not None
        task.cancel()
        await asyncio.wait({task}, timeout=0.01)
        assert is_open()
        go_on.set()
        await until(lambda: not is_open())
        assert seen == [b"0123456789"]
