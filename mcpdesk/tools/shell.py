"""Bash: one command, run to its end in the server folder. Parameters as published for this tool elsewhere."""

from __future__ import annotations

import asyncio
import os
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

from mcpdesk.errors import HandlerError
from mcpdesk.jobs.output import Output
from mcpdesk.protocol import content
from mcpdesk.server.tool import Tool, ToolResult
from mcpdesk.tools import Home

if TYPE_CHECKING:
    from mcpdesk.jobs.process import Ended
    from mcpdesk.protocol.trace import Trace
    from mcpdesk.server.context import Context

DEFAULT_MS = 30_000
MAX_MS = 600_000
PROGRESS_EVERY_S = 0.2
PROGRESS_BYTES = 4_000
"""How much of the newest output a progress message carries."""

DESCRIPTION = (
    "Execute a bash command in the server's folder, without input, and return its output. "
    "Whatever it leaves running in the background is ended with it. "
    "A non-zero exit code is reported as an error."
)
INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "The bash command to execute"},
        "timeout": {
            "type": "integer",
            "description": "Timeout in milliseconds (default: 30000)",
            "minimum": 1,
            "maximum": MAX_MS,
            "default": DEFAULT_MS,
        },
    },
    "required": ["command"],
    "additionalProperties": False,
}
OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "exit_code": {"type": "integer", "description": "128 + n when the command died of signal n"},
        "duration_ms": {"type": "integer"},
        "stdout": {"type": "string"},
        "stderr": {"type": "string"},
        "truncated": {"type": "boolean", "description": "Whether only the start and the end are given"},
        "output_file": {
            "type": ["string", "null"],
            "description": "File with the whole output, when it was too large to return",
        },
        "timed_out": {"type": "boolean"},
    },
    "required": ["exit_code", "duration_ms", "stdout", "stderr", "truncated", "output_file", "timed_out"],
}


def make(home: Home) -> Tool:
    """The tool for one server folder."""

    async def bash(arguments: dict[str, Any], context: Context) -> ToolResult:
        timeout_ms = int(arguments.get("timeout", DEFAULT_MS))
        output = Output(home.state / "outputs")
        reporter = asyncio.create_task(_report(output, context)) if context.wants_progress else None
        try:
            ended = await _run(arguments["command"], timeout_ms, home, output, context.trace)
        finally:
            if reporter is not None:
                reporter.cancel()
                await asyncio.wait({reporter})
        return _result(ended, output, timeout_ms)

    return Tool(
        name="Bash",
        title="Run a bash command",
        description=DESCRIPTION,
        handler=bash,
        input_schema=INPUT_SCHEMA,
        output_schema=OUTPUT_SCHEMA,
        annotations={
            "title": "Run a bash command",
            "readOnlyHint": False,
            "destructiveHint": True,
            "idempotentHint": False,
            "openWorldHint": True,
        },
        timeout_s=MAX_MS / 1000 + 10,
        runs_programs=True,
        source="built-in",
    )


async def _run(command: str, timeout_ms: int, home: Home, output: Output, trace: Trace) -> Ended:
    from mcpdesk.jobs.process import run  # psutil is loaded at the first call, not with the folder

    program = shutil.which("bash")
    if program is None:
        raise HandlerError("bash is not installed, or not in PATH")
    if "\0" in command:
        raise HandlerError("command: must not contain a NUL character")
    try:
        return await run(
            [program, "-c", command],
            folder=home.folder,
            environment=dict(os.environ) | trace.environment(),
            output=output,
            timeout_s=timeout_ms / 1000,
        )
    except OSError as error:
        raise HandlerError(f"bash could not be started in {home.folder}: {error.strerror}") from error


async def _report(output: Output, context: Context) -> None:
    """Send the newest output as progress whenever there is more, at most every `PROGRESS_EVERY_S`."""
    loop, reported = asyncio.get_running_loop(), 0
    while True:
        more = asyncio.Event()
        output.notify(partial(_tell, loop, more))
        if output.size > reported:
            reported = output.size
            await context.progress(reported, message=output.end(PROGRESS_BYTES))
        else:
            await more.wait()
        await asyncio.sleep(PROGRESS_EVERY_S)


def _tell(loop: asyncio.AbstractEventLoop, more: asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(more.set)


def _result(ended: Ended, output: Output, timeout_ms: int) -> ToolResult:
    structured = {
        "exit_code": ended.exit_code,
        "duration_ms": round(ended.duration_s * 1000),
        "stdout": output.stream("stdout"),
        "stderr": output.stream("stderr"),
        "truncated": output.is_cut,
        "output_file": str(output.file) if output.file else None,
        "timed_out": ended.timed_out,
    }
    text = "\n".join([output.text().removesuffix("\n") or "(no output)", *_notes(ended, output, timeout_ms)])
    failed = ended.timed_out or ended.exit_code != 0
    return ToolResult((content.text(text),), structured, is_error=failed)


def _notes(ended: Ended, output: Output, timeout_ms: int) -> list[str]:
    """What the output itself does not say, one line each."""
    notes = {
        f"[timed out after {timeout_ms} ms and was ended]": ended.timed_out,
        f"[exit code {ended.exit_code}]": ended.exit_code != 0,
        f"[{ended.left_over} still running in the background, ended]": ended.left_over > 0,
        f"[{output.problem}]": bool(output.problem),
    }
    return [note for note, applies in notes.items() if applies]
