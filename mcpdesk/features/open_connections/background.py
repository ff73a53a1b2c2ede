"""Process that keeps one connection open.

`mcpdesk up` starts it with `python -m`. It reads the plan from stdin, connects, and writes the outcome to
stdout as one line. It writes nothing to the terminal.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
import traceback
from contextlib import ExitStack, suppress
from socket import socket
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mcpdesk.cli.printing import exit_code
from mcpdesk.cli.reach import with_hint
from mcpdesk.errors import CallError, DeskError, DeskUserError
from mcpdesk.features.open_connections.activity import Activity
from mcpdesk.features.open_connections.door import Door
from mcpdesk.features.open_connections.plan import ConnectionPlan, Outcome, decoded_plan, encoded
from mcpdesk.features.open_connections.relay import Relay
from mcpdesk.features.open_connections.report import ConnectionDescription, ConnectionReport, ConnectionState
from mcpdesk.features.open_connections.sockets import occupy
from mcpdesk.upstream.upstream import UpstreamPlan, UpstreamState

if TYPE_CHECKING:
    from mcpdesk.hosting.host import Host
    from mcpdesk.hosting.host_plan import HostPlan
    from mcpdesk.transports.rendezvous import ListeningSocket

GRACE_S = 10.0
"""Time limit in seconds of an orderly end."""
MAX_LOG_LINES = 50
"""Maximum number of lines of a server's output in an outcome."""
STATES = {
    UpstreamState.CONNECTING: ConnectionState.CONNECTING,
    UpstreamState.READY: ConnectionState.READY,
    UpstreamState.FAILED: ConnectionState.FAILED,
    UpstreamState.ENDED: ConnectionState.ENDED,
    UpstreamState.DISABLED: ConnectionState.FAILED,
}
HINTS = {
    ConnectionState.FAILED: "`mcpdesk up` with the same target connects again.",
    ConnectionState.ENDED: "`mcpdesk up` with the same target starts it again, without its earlier state.",
}
"""Hints for a person, by state."""
RETRY_HINT = "The next command tries again."
PROBLEM_LEVELS = ("warning", "error", "critical")
OUTPUT_SOURCES = ("stderr", "stdout", "print")


def main() -> int:
    """Read the plan, connect, and keep the connection until it is no longer needed. Return the exit code."""
    plan = decoded_plan(sys.stdin.buffer.read())
    outcome_fd = _leave_terminal()
    connection = _Connection(plan, outcome_fd)
    try:
        connection.run()
    except DeskError as error:
        hint = getattr(error, "hint", "")
        connection.report_outcome(Outcome(None, str(error), hint, exit_code(error), connection.output()))
        return 1
    except Exception:
        connection.report_outcome(Outcome(None, f"a bug in mcpdesk:\n{traceback.format_exc()}", exit_code=1))
        return 1
    return 0


def _leave_terminal() -> int:
    """Redirect stdin, stdout and stderr to the null device. Return a new descriptor of the former stdout."""
    outcome_fd = os.dup(1)
    null_fd = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null_fd, descriptor)
    os.close(null_fd)
    return outcome_fd


class _Connection:
    """The connection, with the core that keeps it."""

    def __init__(self, plan: ConnectionPlan, outcome_fd: int) -> None:
        self._plan = plan
        self._outcome_fd = outcome_fd
        self._started_at = time.time()
        self._activity = Activity()
        self._host: Host | None = None
        self._relay: Relay | None = None

    def report_outcome(self, outcome: Outcome) -> None:
        """Send the outcome to the command that started this process. Only the first call has an effect."""
        outcome_fd, self._outcome_fd = self._outcome_fd, -1
        if outcome_fd < 0:
            return
        with suppress(OSError), os.fdopen(outcome_fd, "wb") as pipe:  # the command was interrupted
            pipe.write(encoded(outcome))

    def output(self) -> list[str]:
        """Return the last lines of the server's output.

        A program that ends at the first request is started a second time, and often prints the same again.
        Lines that are repeated in this way are returned once.
        """
        if self._host is None:
            return []
        is_hosted = self._plan.folder is not None
        lines = [
            f"{each.where}: {each.text}" if each.where else each.text
            for each in self._host.journal.lines()
            if each.source in OUTPUT_SOURCES or (is_hosted and each.level in PROBLEM_LEVELS)
        ]
        first, second = lines[: len(lines) // 2], lines[len(lines) // 2 :]
        return (second if first == second else lines)[-MAX_LOG_LINES:]

    def run(self) -> None:
        """Keep the connection. Raises: DeskError if the server cannot be hosted, started or reached."""
        listening = occupy(self._plan.name)
        if listening is None:
            return self.report_outcome(Outcome(is_taken=True))
        from mcpdesk.hosting.core_loop import core_thread
        from mcpdesk.hosting.host import Host
        from mcpdesk.runtime.core_process import capture_output, offer_link

        with ExitStack() as stack:
            stack.callback(listening.leave)
            self._host = host = Host(_host_plan(self._plan))
            offer_link(host)
            stack.enter_context(capture_output(host, "screen"))
            if self._plan.folder is None:
                self._relay = Relay(self._plan.name, host.inbox, self._activity)
                host.hosted_upstreams.wrap_questions = self._relay.wrap_questions
            host.load()
            if self._relay is not None:
                self._relay.attach(host.upstreams[self._plan.name])
            core_thread.run(self._keep(host, listening), core_thread.loop_factory(host))

    async def _keep(self, host: Host, listening: ListeningSocket) -> None:
        """Connect, report the outcome, and serve commands until the connection is idle or must end."""
        from mcpdesk.runtime.attach_point import AttachPoint
        from mcpdesk.runtime.core_process import StopRequests

        loop, stop_requested = asyncio.get_running_loop(), asyncio.Event()

        def stop(reason: str) -> None:
            loop.call_soon_threadsafe(stop_requested.set)

        def relay(visitor: socket) -> None:
            loop.call_soon_threadsafe(host.start_chore, self._serve(visitor))

        with StopRequests(stop, grace_s=GRACE_S):
            try:
                with Door(listening, self._description, relay, encoded(self._plan)), AttachPoint(host, "up"):
                    await host.start()
                    if self._relay is not None:
                        await self._wait_until_connected(self._relay, stop_requested)
                    self._activity.record_use()
                    self.report_outcome(Outcome(self._report(), log=self.output()))
                    idle_task = asyncio.create_task(
                        self._activity.until_idle(self._plan.keep_open_s, lambda: _is_used(host))
                    )
                    stop_task = asyncio.create_task(stop_requested.wait())
                    await asyncio.wait({idle_task, stop_task}, return_when=asyncio.FIRST_COMPLETED)
                    for task in (idle_task, stop_task):
                        task.cancel()
                    host.is_draining = True
            finally:
                if self._relay is not None:
                    self._relay.close()
                await host.stop()

    async def _wait_until_connected(self, relay: Relay, stop_requested: asyncio.Event) -> None:
        """Wait until the server is connected.

        Raises: DeskError if it cannot be started or reached, or if the process must stop.
        """
        status_changed = asyncio.Event()
        upstream = relay.upstream
        upstream.status_listeners.append(status_changed.set)
        stop_task = asyncio.create_task(stop_requested.wait())
        while upstream.status.state is UpstreamState.CONNECTING:
            status_changed.clear()
            change_task = asyncio.create_task(status_changed.wait())
            await asyncio.wait({change_task, stop_task}, return_when=asyncio.FIRST_COMPLETED)
            change_task.cancel()
            if stop_requested.is_set():
                raise DeskUserError("The connection was ended before the server answered.")
        stop_task.cancel()
        upstream.status_listeners.remove(status_changed.set)
        if upstream.status.state is UpstreamState.READY:
            return
        if isinstance(error := upstream.failure, CallError):
            raise with_hint(error, is_first=True)
        raise error or DeskUserError(relay.down_reason)

    async def _serve(self, visitor: socket) -> None:
        """Relay a command, unless the process hosts a folder, where commands connect to the core."""
        visitor.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=visitor)
        if self._relay is None:
            writer.close()
        else:
            await self._relay.serve(reader, writer)

    def _description(self) -> ConnectionDescription:
        return ConnectionDescription(self._report(), self._plan.key)

    def _report(self) -> ConnectionReport:
        """Describe the connection. May be called on any thread."""
        plan, activity = self._plan, self._activity
        report = ConnectionReport(
            name=plan.name,
            target=plan.text,
            transport=plan.transport,
            state=ConnectionState.CONNECTING,
            reason="",
            hint="",
            server="",
            server_version="",
            revision="",
            tools=None,
            pid=os.getpid(),
            since=self._started_at,
            calls=activity.calls,
            clients=activity.clients,
            idle_s=activity.idle_s,
            keep_open_s=plan.keep_open_s,
            folder=str(plan.folder.path) if plan.folder is not None else "",
        )
        if self._host is None:
            return report
        if self._relay is None:
            return _with_folder(report, self._host)
        return _with_upstream(report, self._host, self._relay.failure)


def _host_plan(plan: ConnectionPlan) -> HostPlan:
    """Return the plan of the core, which listens at no address."""
    from mcpdesk.hosting.host_plan import plan_for

    folders = () if plan.folder is None else (plan.folder.path,)
    target = plan.url or plan.command
    upstreams = () if target is None else (UpstreamPlan(plan.name, target, plan.reach),)
    host_plan = plan_for(folders, {}, os.environ, http=False, mode=plan.reach.mode, upstreams=upstreams)
    # The connection belongs to this machine.
    return replace(host_plan, settings=replace(host_plan.settings, shared=""))


def _is_used(host: Host) -> bool:
    """Return True if screens are attached, clients of a folder are connected, or its programs run."""
    from mcpdesk.protocol.task_shapes import TaskStatus

    if host.inbox.people or any(endpoint.dialogues for endpoint in host.endpoints()):
        return True
    jobs = host.services.jobs.snapshot() if host.services.has_created("jobs") else ()
    if any(job.status is TaskStatus.WORKING for job in jobs):
        return True
    states = [endpoint.server.hosted for endpoint in host.endpoints()]
    return any(
        not each.over.is_set()
        for state in states
        if state is not None and state.has_created("programs")
        for each in state.programs.all()
    )


def _with_upstream(report: ConnectionReport, host: Host, failure: str) -> ConnectionReport:
    """Describe the upstream server. `failure` is the error of the latest request, or ""."""
    upstream = next(iter(host.upstreams.values()), None)
    if upstream is None:
        return report
    agreement = upstream.status.agreement
    state = STATES[upstream.status.state]
    reason, hint = "; ".join(upstream.status.problems), HINTS.get(state, "")
    if state is ConnectionState.READY:
        reason, hint = "", ""
        if failure:
            state, reason, hint = ConnectionState.FAILED, failure, RETRY_HINT
    return replace(
        report,
        state=state,
        reason=reason,
        hint=hint,
        server=str(agreement.server.get("name", "")) if agreement else "",
        server_version=str(agreement.server.get("version", "")) if agreement else "",
        revision=agreement.revision.name if agreement else "",
        tools=upstream.offered()["tool"] if state is ConnectionState.READY else None,
    )


def _with_folder(report: ConnectionReport, host: Host) -> ConnectionReport:
    """Describe the server of the hosted folder."""
    endpoint = next(iter(host.endpoints()), None)
    if endpoint is None:
        return report
    server, clients = endpoint.server, len(endpoint.dialogues)
    calls = sum(sum(figure.outcomes) for _, figure in list(server.tool_figures))
    return replace(
        report,
        state=ConnectionState.FAILED if server.withheld else ConnectionState.READY,
        reason=server.withheld,
        hint="Fix the folder: it is read again." if server.withheld else "",
        server=server.name,
        server_version=server.version,
        tools=len(server.tools),
        calls=calls,
        clients=clients,
        idle_s=0.0 if clients else report.idle_s,
    )


if __name__ == "__main__":
    sys.exit(main())
