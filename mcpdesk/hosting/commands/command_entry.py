"""One entry of `commands` in mcp.json: what it says, checked. A mistake is named with its line."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from mcpdesk.errors import MissingPrecondition, RegistrationError
from mcpdesk.hosting.commands.command_argv import (
    Placeholder,
    Template,
    check_template,
    names_in,
    parse_template,
)
from mcpdesk.hosting.commands.command_files import OUTPUT_DIR, is_own
from mcpdesk.hosting.folder.manifest import (
    Manifest,
    Step,
    complaint_and_path,
    in_plain_words,
    path_steps,
    path_text,
    suggestion,
)
from mcpdesk.protocol.annotations import HINTS
from mcpdesk.protocol.headers import Mirrored, mirrored
from mcpdesk.server.schemas.validation import SchemaError, compile_schema

PYTHON, FOLDER = "python", "folder"
OURS = frozenset({PYTHON, FOLDER, OUTPUT_DIR})
"""Placeholders that are no parameters: our interpreter, the working folder, and the folder of the call."""
PART = re.compile(r"[A-Za-z0-9_.-]+")
LONGEST_NAME = 128
MAX_MS = 24 * 3600 * 1000
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Command(Struct, forbid_unknown_fields=True, kw_only=True):
    """The fields of an entry."""

    stage: str
    command: str
    run: list[str]
    title: str = ""
    description: str = ""
    parameters: dict[str, Any] = {}
    produces: list[str] = []
    folder: str = ""
    """Its working folder, relative to the server folder."""
    environment: list[str] = []
    """Environment variables it gets in addition to the usual ones."""
    requires_env: list[str] = []
    timeout_ms: int | None = None
    progress: Literal["json-lines", "percent"] | None = None
    annotations: dict[str, Any] = {}
    requires_jwt: bool = False
    scopes: list[str] = []
    """Scopes a caller's token must allow."""
    task: Literal["optional", "required"] | None = None


class ReadyCommand(Struct, frozen=True):
    """A checked entry on a system that has its program."""

    command: Command
    name: str
    program: str
    """The path of the program."""
    run: tuple[Template, ...]
    """The elements after the program."""
    produces: tuple[Template, ...]
    folder: Path
    schema: dict[str, Any]
    mirrored: tuple[Mirrored, ...]
    unused: tuple[str, ...]
    """Parameters without a placeholder."""


class CommandEntry:
    """Checks the entry at one position of the list."""

    def __init__(self, manifest: Manifest, index: int, environment: Mapping[str, str]) -> None:
        self._manifest = manifest
        self._index = index
        self._environment = environment
        self._given: Any = manifest.commands[index]

    @property
    def name(self) -> str:
        """The tool's name `<stage>-<command>`, or the position where one of them is missing."""
        given = self._given if isinstance(self._given, dict) else {}
        parts = [given.get(key) for key in ("stage", "command")]
        texts = [part for part in parts if isinstance(part, str) and part]
        return "-".join(texts)[:LONGEST_NAME] if len(texts) == 2 else f"commands[{self._index}]"

    def source(self, *trail: Step) -> str:
        """The place of the entry, or of a value in it, as `mcp.json:12`."""
        return self._manifest.source("commands", self._index, *trail)

    def ready(self) -> ReadyCommand:
        """Check everything. Raises: RegistrationError; MissingPrecondition for what is not there."""
        command = self._converted()
        self._check_names(command)
        schema = self._schema(command)
        folder = self._folder(command)
        known = set(schema.get("properties", {}))
        run = [self._template(known, text, "run", number) for number, text in enumerate(command.run)]
        produces = [
            self._template(known, text, "produces", number) for number, text in enumerate(command.produces)
        ]
        for number, template in enumerate(run[1:], 1):
            self._attempt(check_template, template, "run", number)
        for number, template in enumerate(produces):
            self._check_produced(template, number)
        used = {name for template in (*run, *produces) for name in names_in(template)}
        for variable in (*command.requires_env, *command.environment):
            if not VARIABLE.fullmatch(variable):
                key = "requires_env" if variable in command.requires_env else "environment"
                raise self._mistake(f"{variable!r} is no name of a variable", key)
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
            mirrored=self._attempt(mirrored, schema, "parameters"),
            unused=tuple(sorted(known - used)),
        )

    def _converted(self) -> Command:
        if not isinstance(self._given, dict):
            raise self._mistake(f"must be an object, not {self._given!r}"[:200])
        for key in self._given:
            if key not in Command.__struct_fields__:
                known = list(Command.__struct_fields__)
                hint = suggestion(key, known, f"allowed: {', '.join(known)}")
                raise self._mistake(f"unknown key{hint}", key)
        try:
            return msgspec.convert(self._given, Command)
        except msgspec.ValidationError as error:
            message, where = complaint_and_path(error)
            trail = path_steps(where)
            key = str(trail[0]) if trail else ""
            choices = CHOICES.get(key, "")
            raise self._mistake(in_plain_words(message, choices), *trail) from None

    def _check_names(self, command: Command) -> None:
        for key in ("stage", "command"):
            given = getattr(command, key)
            if not PART.fullmatch(given):
                allowed = "letters, digits, '_', '-' and '.'"
                raise self._mistake(f"{given!r} is not allowed; allowed: {allowed}", key)
        if len(f"{command.stage}-{command.command}") > LONGEST_NAME:
            raise self._mistake(f"the tool's name has more than {LONGEST_NAME} characters", "command")
        for hint, value in command.annotations.items():
            if hint not in (*HINTS, "title") or not isinstance(value, str if hint == "title" else bool):
                told = f"{hint!r} cannot be {value!r}; allowed: true or false for {', '.join(HINTS)}"
                raise self._mistake(told, "annotations", hint)
        if not command.run:
            raise self._mistake("is empty; its first element is the program", "run")
        if command.timeout_ms is not None and not 1 <= command.timeout_ms <= MAX_MS:
            raise self._mistake(f"must be from 1 to {MAX_MS}, not {command.timeout_ms}", "timeout_ms")

    def _schema(self, command: Command) -> dict[str, Any]:
        given = command.parameters
        if "type" in given and given["type"] != "object":
            raise self._mistake('must say "type": "object": arguments are an object', "parameters", "type")
        properties = given.get("properties", {})
        if not isinstance(properties, dict):
            raise self._mistake("must be an object", "parameters", "properties")
        for name in properties:
            if name in OURS:
                told = f"{name!r} is a placeholder of mcpdesk's own; give the parameter another name"
                raise self._mistake(told, "parameters", "properties", name)
        # What is given no placeholder could not reach the program: a client is told rather than ignored.
        schema = {"type": "object", "properties": properties, "additionalProperties": False} | given
        if given:
            try:
                compile_schema(schema)
            except SchemaError as error:
                raise self._mistake(str(error), "parameters") from None
        return schema

    def _folder(self, command: Command) -> Path:
        root = self._manifest.folder
        folder = (root / command.folder).resolve()
        if not folder.is_relative_to(root):
            raise self._mistake(f"{command.folder!r} leaves the server folder", "folder")
        if not folder.is_dir():
            raise self._mistake(f"there is no folder {command.folder!r} in the server folder", "folder")
        return folder

    def _template(self, known: set[str], text: str, key: str, number: int) -> Template:
        if "\0" in text:
            raise self._mistake("must not contain a NUL character", key, number)
        template: Template = self._attempt(parse_template, text, key, number)
        for name in names_in(template):
            if name not in known and name not in OURS:
                there = f"parameters: {', '.join(sorted(known)) or 'none'}"
                told = f"there is no parameter {name!r}{suggestion(name, sorted(known | OURS), there)}"
                raise self._mistake(f"{text!r}: {told}", key, number)
        return template

    def _check_produced(self, template: Template, number: int) -> None:
        if not template:
            raise self._mistake("is empty; name a file", "produces", number)
        names = names_in(template)
        if PYTHON in names or FOLDER in names:
            raise self._mistake("paths begin in the working folder by themselves", "produces", number)
        literal = "".join("x" if isinstance(part, Placeholder) else part for part in template)
        if not is_own(template) and (os.path.isabs(literal) or ".." in literal.split("/")):
            told = "must lie in the working folder, or begin with a placeholder"
            raise self._mistake(told, "produces", number)

    def _program(self, template: Template, folder: Path) -> str:
        first, rest = template[:1], template[1:]
        if template == (Placeholder(PYTHON),):
            import sys

            return sys.executable
        if first == (Placeholder(FOLDER),) and rest and str(rest[0]).startswith("/"):
            template = (str(folder), *rest)
        if names_in(template):
            told = "the program itself cannot be an argument; only {python} and {folder}/... are filled in"
            raise self._mistake(told, "run", 0)
        if not template:
            raise self._mistake("the program has no name", "run", 0)
        return self._found("".join(map(str, template)), folder)

    def _found(self, text: str, folder: Path) -> str:
        import shutil

        if "/" in text:
            path = folder / text
            if not path.is_file():
                raise MissingPrecondition(f"needs the program {text}, which is not there", self.source("run"))
            if not os.access(path, os.X_OK):
                told = f"needs the program {text}, which may not be executed (chmod +x)"
                raise MissingPrecondition(told, self.source("run"))
            return str(path)
        found = shutil.which(text, path=self._environment.get("PATH"))
        if found is None:
            told = f"needs the program {text}, which is not installed or not in PATH"
            raise MissingPrecondition(told, self.source("run"))
        return found

    def _attempt(self, function: Any, value: Any, *trail: Step) -> Any:
        try:
            return function(value)
        except ValueError as error:
            raise self._mistake(str(error), *trail) from None

    def _mistake(self, message: str, *trail: Step) -> RegistrationError:
        return RegistrationError(f"{path_text(trail)}: {message}" if trail else message, self.source(*trail))


CHOICES = {"progress": "json-lines, percent", "task": "optional, required"}
