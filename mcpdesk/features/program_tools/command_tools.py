"""Tools that run programs. Each entry of `commands` in mcp.json becomes a tool `<stage>-<command>`.

An invalid entry is left out and reported with its line. A call waits until the program ends, streams the
program's output, and returns the files that the program made.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from mcpdesk.errors import HandlerError, MissingPrecondition, RegistrationError
from mcpdesk.features.program_tools.command_argv import (
    Placeholder,
    Template,
    build,
    check_template,
    names_in,
    parse_template,
)
from mcpdesk.features.program_tools.command_files import (
    OUTPUT_DIR,
    OutputFolders,
    begins_with_placeholder,
    claim_files,
    expected_files,
    made_files,
    output_names,
    release_files,
    resolve_path,
)
from mcpdesk.hosting.folder.file_items import FileItems, digest, variable_hash
from mcpdesk.hosting.folder.manifest import (
    Manifest,
    Step,
    complaint_and_path,
    in_plain_words,
    path_steps,
    path_text,
    suggestion,
)
from mcpdesk.jobs.feed import CallFeed, ProgressReport
from mcpdesk.jobs.output import Reports
from mcpdesk.jobs.process import ProgramEnd, end_remarks, report_end, run
from mcpdesk.jobs.schedule import call_soon_safely
from mcpdesk.protocol import content
from mcpdesk.protocol.catalogue.annotations import HINTS
from mcpdesk.protocol.headers import MirroredArgument, mirrored_arguments
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.tool import Tool, ToolResult
from mcpdesk.server.schemas.validation import SchemaError, compile_schema

if TYPE_CHECKING:
    from mcpdesk.features.program_tools.command_files import ExpectedFile
    from mcpdesk.jobs.output import Stream


PYTHON, FOLDER = "python", "folder"
OWN_PLACEHOLDERS = frozenset({PYTHON, FOLDER, OUTPUT_DIR})
"""Placeholders that mcpdesk fills in: Python interpreter, working folder, and folder of the call."""
NAME_PART = re.compile(r"[A-Za-z0-9_.-]+")
"""Pattern for `stage` and `command`, which are the parts of a tool's name."""
MAX_NAME_LENGTH = 128
MAX_TIMEOUT_MS = 24 * 3600 * 1000
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Command(Struct, forbid_unknown_fields=True, kw_only=True):
    """Fields of an entry of `commands`."""

    stage: str
    command: str
    run: list[str]
    title: str = ""
    description: str = ""
    parameters: dict[str, Any] = {}
    produces: list[str] = []
    folder: str = ""
    """Working folder, relative to the server folder."""
    environment: list[str] = []
    """Names of environment variables that the program receives in addition to `USUAL_VARIABLES`."""
    requires_env: list[str] = []
    timeout_ms: int | None = None
    progress: Literal["json-lines", "percent"] | None = None
    annotations: dict[str, Any] = {}
    requires_jwt: bool = False
    scopes: list[str] = []
    """Scopes that a caller's token must have."""
    task: Literal["optional", "required"] | None = None
    resume: bool = False
    """True if another process may run a job again after the process that ran the job has ended."""


class ReadyCommand(Struct, frozen=True):
    """Valid entry of `commands`. Its program is installed."""

    command: Command
    name: str
    program: str
    """Path of the program."""
    run: tuple[Template, ...]
    """Templates of the arguments."""
    produces: tuple[Template, ...]
    folder: Path
    schema: dict[str, Any]
    mirrored: tuple[MirroredArgument, ...]
    unused: tuple[str, ...]
    """Parameters that no placeholder uses."""


class CommandEntry:
    """Checks the entry at one position of the list."""

    def __init__(self, manifest: Manifest, index: int, environment: Mapping[str, str]) -> None:
        self._manifest = manifest
        self._index = index
        self._environment = environment
        self._entry: Any = manifest.commands[index]

    @property
    def name(self) -> str:
        """Name of the tool. If stage or command is missing, position of the entry in the list."""
        options = self._entry if isinstance(self._entry, dict) else {}
        parts = [options.get(key) for key in ("stage", "command")]
        texts = [part for part in parts if isinstance(part, str) and part]
        return "-".join(texts)[:MAX_NAME_LENGTH] if len(texts) == 2 else f"commands[{self._index}]"

    @property
    def required_variables(self) -> list[str]:
        """Names of the environment variables that the entry requires, even if it has errors."""
        names = self._entry.get("requires_env") if isinstance(self._entry, dict) else None
        return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []

    def source(self, *trail: Step) -> str:
        """Return the location of the entry, or of a value in it, such as `mcp.json:12`."""
        return self._manifest.source("commands", self._index, *trail)

    def ready(self) -> ReadyCommand:
        """Check the entry.

        Raises: RegistrationError for an invalid entry; MissingPrecondition if something is not installed.
        """
        command = self._converted()
        self._check_names(command)
        schema = self._schema(command)
        folder = self._folder(command)
        parameters = set(schema.get("properties", {}))
        run = [self._template(parameters, text, "run", number) for number, text in enumerate(command.run)]
        produces = [
            self._template(parameters, text, "produces", number)
            for number, text in enumerate(command.produces)
        ]
        for number, template in enumerate(run[1:], 1):
            self._attempt(check_template, template, "run", number)
        for number, template in enumerate(produces):
            self._check_produced(template, number)
        used_names = {name for template in (*run, *produces) for name in names_in(template)}
        for variable in (*command.requires_env, *command.environment):
            if not VARIABLE_NAME.fullmatch(variable):
                key = "requires_env" if variable in command.requires_env else "environment"
                raise self._error(f"{variable!r} is not a variable name", key)
        for variable in command.requires_env:
            if not self._environment.get(variable):
                raise MissingPrecondition.of_variable(variable, self.source("requires_env"))
        return ReadyCommand(
            command=command,
            name=self.name,
            program=self._program(run[0], folder),
            run=tuple(run[1:]),
            produces=tuple(produces),
            folder=folder,
            schema=schema,
            mirrored=self._attempt(mirrored_arguments, schema, "parameters"),
            unused=tuple(sorted(parameters - used_names)),
        )

    def _converted(self) -> Command:
        """Return the entry as a `Command`. Raises: RegistrationError."""
        if not isinstance(self._entry, dict):
            raise self._error(f"must be an object, not {self._entry!r}"[:200])
        for key in self._entry:
            if key not in Command.__struct_fields__:
                keys = list(Command.__struct_fields__)
                hint = suggestion(key, keys, f"allowed: {', '.join(keys)}")
                raise self._error(f"unknown key{hint}", key)
        try:
            return msgspec.convert(self._entry, Command)
        except msgspec.ValidationError as error:
            message, path = complaint_and_path(error)
            trail = path_steps(path)
            key = str(trail[0]) if trail else ""
            choices = CHOICES.get(key, "")
            raise self._error(in_plain_words(message, choices), *trail) from None

    def _check_names(self, command: Command) -> None:
        for key in ("stage", "command"):
            part = getattr(command, key)
            if not NAME_PART.fullmatch(part):
                allowed = "letters, digits, '_', '-' and '.'"
                raise self._error(f"{part!r} is not allowed; allowed: {allowed}", key)
        if len(f"{command.stage}-{command.command}") > MAX_NAME_LENGTH:
            raise self._error(f"the tool's name has more than {MAX_NAME_LENGTH} characters", "command")
        for hint, value in command.annotations.items():
            if hint not in (*HINTS, "title") or not isinstance(value, str if hint == "title" else bool):
                message = f"{hint!r} cannot be {value!r}; allowed: true or false for {', '.join(HINTS)}"
                raise self._error(message, "annotations", hint)
        if not command.run:
            raise self._error("is empty; its first element is the program", "run")
        if command.timeout_ms is not None and not 1 <= command.timeout_ms <= MAX_TIMEOUT_MS:
            raise self._error(f"must be from 1 to {MAX_TIMEOUT_MS}, not {command.timeout_ms}", "timeout_ms")

    def _schema(self, command: Command) -> dict[str, Any]:
        """Return the input schema for the parameters. Raises: RegistrationError."""
        parameters = command.parameters
        if "type" in parameters and parameters["type"] != "object":
            raise self._error(
                'must contain "type": "object", because arguments are an object', "parameters", "type"
            )
        properties = parameters.get("properties", {})
        if not isinstance(properties, dict):
            raise self._error("must be an object", "parameters", "properties")
        for name in properties:
            if name in OWN_PLACEHOLDERS:
                message = f"{name!r} is a built-in placeholder; rename the parameter"
                raise self._error(message, "parameters", "properties", name)
        # Unknown arguments are rejected. They have no placeholder, so they could not reach the program.
        schema = {"type": "object", "properties": properties, "additionalProperties": False} | parameters
        if parameters:
            try:
                compile_schema(schema)
            except SchemaError as error:
                raise self._error(str(error), "parameters") from None
        return schema

    def _folder(self, command: Command) -> Path:
        root = self._manifest.folder
        folder = (root / command.folder).resolve()
        if not folder.is_relative_to(root):
            raise self._error(f"{command.folder!r} leaves the server folder", "folder")
        if not folder.is_dir():
            raise self._error(f"the server folder has no folder {command.folder!r}", "folder")
        return folder

    def _template(self, parameters: set[str], text: str, key: str, number: int) -> Template:
        """Parse element `number` of the list `key`. Raises: RegistrationError."""
        if "\0" in text:
            raise self._error("must not contain a NUL character", key, number)
        template: Template = self._attempt(parse_template, text, key, number)
        for name in names_in(template):
            if name not in parameters and name not in OWN_PLACEHOLDERS:
                parameter_list = f"parameters: {', '.join(sorted(parameters)) or 'none'}"
                hint = suggestion(name, sorted(parameters | OWN_PLACEHOLDERS), parameter_list)
                raise self._error(f"{text!r}: no parameter {name!r}{hint}", key, number)
        return template

    def _check_produced(self, template: Template, number: int) -> None:
        """Check one element of `produces`. Raises: RegistrationError."""
        if not template:
            raise self._error("is empty; name a file", "produces", number)
        names = names_in(template)
        if PYTHON in names or FOLDER in names:
            raise self._error("paths are already relative to the working folder", "produces", number)
        sample_path = "".join("x" if isinstance(part, Placeholder) else part for part in template)
        if not begins_with_placeholder(template) and (
            os.path.isabs(sample_path) or ".." in sample_path.split("/")
        ):
            message = "must be in the working folder, or begin with a placeholder"
            raise self._error(message, "produces", number)

    def _program(self, template: Template, folder: Path) -> str:
        """Return the path of the program in the first element of `run`.

        Raises: RegistrationError; MissingPrecondition if the program is not installed.
        """
        first_part, other_parts = template[:1], template[1:]
        if template == (Placeholder(PYTHON),):
            return sys.executable
        if first_part == (Placeholder(FOLDER),) and other_parts and str(other_parts[0]).startswith("/"):
            template = (str(folder), *other_parts)
        if names_in(template):
            message = "the program itself cannot be an argument; only {python} and {folder}/... are filled in"
            raise self._error(message, "run", 0)
        if not template:
            raise self._error("the program has no name", "run", 0)
        return self._program_path("".join(map(str, template)), folder)

    def _program_path(self, text: str, folder: Path) -> str:
        """Return the path of a program. Raises: MissingPrecondition if it is not installed."""
        import shutil

        if "/" in text:
            path = folder / text
            if not path.is_file():
                raise MissingPrecondition(
                    f"needs the program {text}, which does not exist", self.source("run")
                )
            if not os.access(path, os.X_OK):
                message = f"needs the program {text}, which is not executable (use chmod +x)"
                raise MissingPrecondition(message, self.source("run"))
            return str(path)
        program = shutil.which(text, path=self._environment.get("PATH"))
        if program is None:
            message = f"needs the program {text}, which is not installed or not in PATH"
            raise MissingPrecondition(message, self.source("run"))
        return program

    def _attempt(self, function: Any, value: Any, *trail: Step) -> Any:
        """Return `function(value)`. Raises: RegistrationError instead of ValueError."""
        try:
            return function(value)
        except ValueError as error:
            raise self._error(str(error), *trail) from None

    def _error(self, message: str, *trail: Step) -> RegistrationError:
        return RegistrationError(f"{path_text(trail)}: {message}" if trail else message, self.source(*trail))


CHOICES = {"progress": "json-lines, percent", "task": "optional, required"}
"""Allowed values of keys, for error messages."""


T = TypeVar("T")

USUAL_VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM",
    "VIRTUAL_ENV", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
)  # fmt: skip
"""Environment variables that every program receives, in addition to all `LC_*`.

An entry must list other variables.
"""
OWN_VARIABLES = {"PYTHONUNBUFFERED": "1"}
"""Variables that make Python programs write progress at once instead of in blocks."""
PICTURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
MAX_PICTURES, MAX_PICTURE_BYTES = 4, 1 << 20
"""Maximum number of pictures in a result, and maximum size in bytes of each picture."""
PROGRESS_PERIOD_S = 0.05
"""Minimum seconds between two progress notifications."""
MAX_REPORTS = 64
"""Maximum number of queued progress reports. Older reports are dropped."""

OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"enum": ["ok", "error"], "description": "error: it failed or took too long"},
        "exit_code": {"type": "integer", "description": "128 + n when the program died of signal n"},
        "stdout": {"type": "string"},
        "stderr": {"type": "string"},
        "stage": {"type": "string"},
        "command": {"type": "string"},
        "output_files": {"type": "array", "items": {"type": "string"}, "description": "Created files: paths"},
        "duration_ms": {"type": "integer"},
        "timed_out": {"type": "boolean"},
        "truncated": {
            "type": "boolean",
            "description": "True if only start and end of the output are returned",
        },
        "output_file": {"type": "string", "description": "File with the full output, if it is long"},
    },
    "required": ["status", "exit_code", "stdout", "stderr", "stage", "command", "output_files"],
}


class CommandRun:
    """Handler of a command's tool."""

    def __init__(self, ready: ReadyCommand) -> None:
        self._ready = ready
        self._defaults = {
            name: each["default"]
            for name, each in ready.schema.get("properties", {}).items()
            if isinstance(each, dict) and "default" in each
        }
        self._outputs = output_names(ready.produces)
        self._needs_call_folder = any(
            getattr(part, "name", "") in self._outputs | {OUTPUT_DIR}
            for template in (*ready.run, *ready.produces)
            for part in template
        )

    async def call(self, arguments: dict[str, Any], context: Context) -> ToolResult[dict[str, Any]]:
        """Run the program.

        Raises: BadArgument for unusable arguments; HandlerError if the program cannot start.
        """
        async with self._call_folders(context) as folders:
            argv, files = await asyncio.to_thread(self._prepare, arguments, folders)
            if not folders.allowed:
                return await self._run(argv, files, folders, context)
            created = context.hosted.created_files
            async with _acquired(
                lambda: claim_files(files, folders, created),
                lambda claimed: release_files(files, claimed, created),
            ):
                return await self._run(argv, files, folders, context)

    def _prepare(
        self, arguments: dict[str, Any], folders: OutputFolders
    ) -> tuple[list[str], list[ExpectedFile]]:
        """Return the command line of the program, and the files that the program should make.

        Must be called on a worker thread, because it reads the disk.
        """
        values = self._defaults | arguments
        for name in self._outputs:
            values[name] = resolve_path(name, values.get(name), folders)
        fixed = {"python": sys.executable, "folder": str(folders.folder), OUTPUT_DIR: str(folders.output)}
        argv = [self._ready.program, *build(self._ready.run, values, fixed)]
        return argv, expected_files(self._ready.produces, values, fixed, folders)

    @contextlib.asynccontextmanager
    async def _call_folders(self, context: Context) -> AsyncIterator[OutputFolders]:
        """Provide the folders of one call, and prevent their removal while the call runs."""
        if not self._needs_call_folder:
            yield OutputFolders(self._ready.folder, self._ready.folder)
            return
        call_folders = context.hosted.call_folders
        server = context.server

        def begin() -> Path:
            try:
                return call_folders.begin()
            except OSError as error:
                message = f"the folder of the call cannot be created in {call_folders.root}: {error.strerror}"
                raise HandlerError(message) from error

        async with _acquired(begin, call_folders.end) as output:
            yield OutputFolders(self._ready.folder, output, server.limits.output_dirs, server.folder)

    async def _run(
        self, argv: list[str], files: list[ExpectedFile], folders: OutputFolders, context: Context
    ) -> ToolResult[dict[str, Any]]:
        reporter = _Reporter(context)
        progress_format = self._ready.command.progress or ""
        max_length = context.options.output_chars
        folder, budget = context.hosted.outputs, context.hosted.output_budget
        output = Reports(folder, progress_format, reporter.text, reporter.progress, max_length, budget)
        limit_s = context.limit_s
        try:
            async with reporter:
                with context.own_limit():
                    program_end = await run(
                        argv,
                        folder=folders.folder,
                        environment=self._environment(context),
                        output=output,
                        timeout_s=limit_s,
                    )
        except OSError as error:
            message = f"{argv[0]} could not be started in {folders.folder}: {error.strerror}"
            raise HandlerError(message) from error
        paths, notes = await asyncio.to_thread(made_files, files, folders)
        if context.feed is not None:
            for path in paths:
                context.feed.add_file(path)
        has_failed = program_end.timed_out or program_end.exit_code != 0
        notes = [
            *end_remarks(program_end, output, limit_s * 1000),
            *(f"[{each}]" for each in notes if not has_failed),
        ]
        return await self._result(program_end, output, paths, notes, has_failed, max_length)

    async def _result(
        self,
        program_end: ProgramEnd,
        output: Reports,
        paths: list[Path],
        notes: list[str],
        has_failed: bool,
        max_length: int,
    ) -> ToolResult[dict[str, Any]]:
        command = self._ready.command
        report = report_end(program_end, output, [*(f"[wrote {path}]" for path in paths), *notes], max_length)
        pictures = await asyncio.to_thread(_pictures, paths)
        fields: dict[str, Any] = {
            "status": "error" if has_failed else "ok",
            "stage": command.stage,
            "command": command.command,
            "output_files": [str(path) for path in paths],
        }
        if output.file is not None:
            fields["output_file"] = str(output.file)
        blocks = (content.text(report.text), *pictures)
        return ToolResult(blocks, fields | report.fields, is_error=has_failed)

    def _environment(self, context: Context) -> dict[str, str]:
        """Return the environment of the program: only variables that the entry or `USUAL_VARIABLES` lists."""
        command = self._ready.command
        allowed_names = {*USUAL_VARIABLES, *command.environment, *command.requires_env}
        client = context.client_environment
        base_environment: Mapping[str, str] = os.environ if client is None else client
        variables = {
            name: value
            for name, value in base_environment.items()
            if name in allowed_names or name.startswith("LC_")
        }
        return OWN_VARIABLES | variables | context.trace.environment()


class _Reporter:
    """Receives a program's output, and reports its progress to the client.

    The thread that supervises the program calls `text` and `progress`. Reports are sent on the event loop.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._feed: CallFeed | None = context.feed
        self._loop = asyncio.get_running_loop()
        self._has_reports = asyncio.Event()
        self._reports: deque[ProgressReport] = deque(maxlen=MAX_REPORTS)
        self._report_task: asyncio.Task[None] | None = None

    def text(self, stream: Stream, text: str) -> None:
        """Add output that the program has written."""
        if self._feed is not None:
            (self._feed.stdout if stream == "stdout" else self._feed.stderr)(text)

    def progress(self, progress: ProgressReport) -> None:
        """Queue a progress report."""
        self._reports.append(progress)
        call_soon_safely(self._loop, self._has_reports.set)

    async def __aenter__(self) -> None:
        self._report_task = asyncio.create_task(self._report())

    async def __aexit__(self, *_: object) -> None:
        assert self._report_task is not None
        self._report_task.cancel()
        await asyncio.wait({self._report_task})
        await self._report_queued()

    async def _report(self) -> None:
        while True:
            await self._has_reports.wait()
            self._has_reports.clear()
            await self._report_queued()
            await asyncio.sleep(PROGRESS_PERIOD_S)

    async def _report_queued(self) -> None:
        while self._reports:
            value, total, message = self._reports.popleft()
            await self._context.progress(value, total, message)


@contextlib.asynccontextmanager
async def _acquired(acquire: Callable[[], T], release: Callable[[T], None]) -> AsyncIterator[T]:
    """Provide a resource during the block. It is acquired and released on a worker thread.

    The resource is released even if the call is cancelled while it is acquired.
    """
    acquisition = asyncio.create_task(asyncio.to_thread(acquire))
    try:
        yield await asyncio.shield(acquisition)
    finally:
        await asyncio.wait({acquisition})
        if acquisition.exception() is None:
            await asyncio.to_thread(release, acquisition.result())


def _pictures(paths: list[Path]) -> list[content.Block]:
    """Return the pictures to include in a result."""
    pictures: list[content.Block] = []
    for path in paths:
        with contextlib.suppress(OSError):
            if len(pictures) < MAX_PICTURES and path.stat().st_size <= MAX_PICTURE_BYTES:
                data = path.read_bytes()
                media_type = next(
                    (media_type for magic, media_type in PICTURES.items() if data.startswith(magic)), ""
                )
                pictures += [content.image(data, media_type)] if media_type else []
    return pictures


def read_commands(manifest: Manifest, environment: Mapping[str, str]) -> FileItems:
    """Read the commands of a manifest. Commands that cannot be used are listed with line and reason."""
    items = FileItems()
    for index in range(len(manifest.commands)):
        entry = CommandEntry(manifest, index, environment)
        items.required_variables |= {
            name: variable_hash(environment.get(name, "")) for name in entry.required_variables
        }
        try:
            ready = entry.ready()
        except RegistrationError as error:
            items.refuse("tool", entry.name, error)
            continue
        items.items.append(_tool(ready, entry.source()))
        for name in ready.unused:
            source = entry.source("parameters", "properties", name)
            items.remarks.append(f"{source}: {ready.name}: no placeholder uses the parameter {name!r}")
    return items


def _tool(ready: ReadyCommand, source: str) -> Tool:
    command = ready.command
    identity = json.dumps([str(ready.folder), ready.program, *_hidden_fields(ready)])
    return Tool(
        name=ready.name,
        handler=CommandRun(ready).call,
        input_schema=ready.schema,
        description=command.description,
        title=command.title,
        output_schema=OUTPUT_SCHEMA,
        annotations=command.annotations,
        timeout_s=None if command.timeout_ms is None else command.timeout_ms / 1000,
        runs_programs=True,
        requires_jwt=command.requires_jwt or bool(command.scopes),
        scopes=tuple(command.scopes),
        task=command.task or "",
        resume=command.resume,
        mirrored=ready.mirrored,
        source=source,
        fingerprint=digest(identity.encode()),
    )


def _hidden_fields(ready: ReadyCommand) -> list[object]:
    """Return the fields of an entry that change the call but are not part of the tool's definition."""
    command = ready.command
    return [command.run, command.produces, command.environment, command.progress]
