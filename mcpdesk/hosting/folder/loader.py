"""Loader of server folders. A broken file affects only its own items.

`load_folder` reads a complete folder. `read_module` reads one Python module and returns its decorated and
public functions, or only its `handler`.
"""

from __future__ import annotations

import ast
import inspect
import logging
import os
import traceback
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from mcpdesk.errors import HandlerError, LocalProtocolError, MissingPrecondition, RegistrationError
from mcpdesk.features import features_with
from mcpdesk.hosting.folder.file_items import (
    FileItems,
    Item,
    name_of,
    unreadable_file,
    variable_hash,
    why_unreadable,
    without_duplicates,
)
from mcpdesk.hosting.folder.manifest import FILE, Manifest, read_manifest
from mcpdesk.hosting.folder.module_items import (
    Function,
    ModuleFile,
    awaitable,
    dashed,
    handler_tool,
    typed_tool,
)
from mcpdesk.hosting.folder.namespace import Namespace
from mcpdesk.protocol.catalogue.annotations import check_icons, check_meta_keys
from mcpdesk.protocol.codec import encode_part
from mcpdesk.server.offer.authoring import Note, note_of
from mcpdesk.server.offer.prompts import Prompt
from mcpdesk.server.offer.registry import Unavailable
from mcpdesk.server.offer.resources import Resource, ResourceTemplate
from mcpdesk.server.offer.tool import Tool
from mcpdesk.server.state.lifespan import Lifespan

if TYPE_CHECKING:
    from mcpdesk.server.offer.server import RequestView

MAX_FILES = 5_000
"""Maximum number of files read in each of `tools`, `resources` and `prompts`."""
FOLDERS = {"tool": "tools", "resource": "resources", "prompt": "prompts"}
"""Folder with the files of each kind of item."""
CreateContext = Callable[["RequestView"], Awaitable[Any]]
AroundCall = Callable[[Any, Callable[[Any], Awaitable[Any]]], Awaitable[Any]]
HOOKS = {
    "create_context": "`def create_context(request)`",
    "lifespan": "`async def lifespan(server)`",
    "around_call": "`async def around_call(call, call_next)`",
}
"""Functions that `context.py` may define, with the required form of each."""

IMPORT_ERRORS = (Exception, SystemExit, GeneratorExit, CancelledError)
"""Exceptions that the import of a module may raise, except KeyboardInterrupt."""

_log = logging.getLogger(__name__)


class LoadedFolder(Struct):
    """Items of a folder at one moment, with data that the next load needs."""

    manifest: Manifest
    namespace: Namespace
    tools: list[Tool] = field(default_factory=list)
    resources: list[Resource] = field(default_factory=list)
    templates: list[ResourceTemplate] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)
    unavailable: list[tuple[str, Unavailable]] = field(default_factory=list)
    """Items that are not offered, or are offered in their previous version. Each has its kind."""
    create_context: CreateContext | None = None
    lifespan: Lifespan | None = None
    around_call: AroundCall | None = None
    problems: tuple[str, ...] = ()
    """Problems that belong to no particular item, with their source lines."""
    helpers: tuple[str, ...] = ()
    """Messages about files whose functions are not offered because another file imports them."""
    files: dict[Path, FileItems] = field(default_factory=dict)
    """Items of each file."""
    modules: dict[Path, object] = field(default_factory=dict)
    """Module of each Python file that was loaded."""

    def close(self) -> None:
        """Remove the folder's modules from the interpreter. Code that is running is not affected."""
        self.namespace.close()


def load_folder(
    folder: Path, previous: LoadedFolder | None = None, environment: Mapping[str, str] = os.environ
) -> LoadedFolder:
    """Load a server folder.

    With the result of the `previous` load, only changed files run again. A broken file keeps its earlier
    items.

    Raises: ManifestError for a missing folder or an invalid `mcp.json`; the previous result then remains
    valid.
    """
    manifest = read_manifest(folder)
    namespace = previous.namespace if previous else Namespace(manifest.folder)
    loaded = LoadedFolder(manifest, namespace)
    load = _FolderLoad(loaded, previous or loaded, environment)
    namespace.refresh(path for path, items in load.previous.files.items() if items.is_outdated(environment))
    try:
        remarks = load.read_files()
        if manifest.commands:
            remarks += load.read_commands()
        context_problems = load.read_context()
    finally:
        namespace.restore_unchanged()
    importers = _helper_files(loaded)
    merged = without_duplicates(items for path, items in loaded.files.items() if path not in importers)
    loaded.helpers = tuple(_helper_message(loaded, path, user) for path, user in importers.items())
    lists: dict[type, list[Any]] = {
        Tool: loaded.tools,
        Resource: loaded.resources,
        ResourceTemplate: loaded.templates,
        Prompt: loaded.prompts,
    }
    for item in merged.items:
        lists[type(item)].append(item)
    loaded.unavailable = merged.broken
    if manifest.requires:
        from mcpdesk.hosting.folder.requirements import missing_packages  # rarely needed

        missing = missing_packages(manifest.requires)
        context_problems += [f"{manifest.source('requires')}: {missing}"] if missing else []
    loaded.problems = (*context_problems, *remarks, *merged.remarks)
    return loaded


def _helper_files(loaded: LoadedFolder) -> dict[Path, Path]:
    """Return the helper files, each with one file that imports it.

    A helper file has only plain functions, and another file imports it. The functions of helper files are not
    offered.
    """
    importers = {
        path: source.path for source in loaded.namespace.sources.values() for path in source.imported_paths
    }
    return {
        path: importers[path]
        for path, items in loaded.files.items()
        if items.may_be_helper and path in importers
    }


def _helper_message(loaded: LoadedFolder, path: Path, importer: Path) -> str:
    """Return the message that the functions of a helper file are not offered."""
    folder, items = loaded.manifest.folder, loaded.files[path]
    names = [name_of(item) for item in items.items] + [item.name for _, item in items.broken]
    location = items.items[0].source if items.items else path.relative_to(folder).as_posix()
    message = f"{', '.join(names) or 'its functions'} {'is' if len(names) == 1 else 'are'} not offered"
    reason = f"{importer.relative_to(folder).as_posix()} imports the file, so its plain functions are helpers"
    return f"{location}: {message}: {reason}; decorate one with @tool to offer it"


class _FolderLoad(Struct):
    """State of one load.

    `previous` is the result of the previous load, or `loaded` itself for the first load.
    """

    loaded: LoadedFolder
    previous: LoadedFolder
    environment: Mapping[str, str]

    def read_files(self) -> list[str]:
        """Read all files into `loaded`, and return remarks."""
        remarks: list[str] = []
        for kind, name in FOLDERS.items():
            for base in (self.loaded.manifest.folder / name, self.loaded.manifest.folder / "src" / name):
                paths = list(_files_below(base))
                if len(paths) > MAX_FILES:
                    remarks.append(f"{name}: more than {MAX_FILES} files; the rest is left out")
                for path in paths[:MAX_FILES]:
                    if _may_define_items(kind, path, base):
                        self.loaded.files[path] = self._read_file(kind, path, base)
        return remarks

    def read_commands(self) -> list[str]:
        """Read the programs that the manifest offers as tools, and return remarks."""
        manifest = self.loaded.manifest
        feature = next(features_with("command_tools"), None)
        if feature is None:
            source = manifest.source("commands")
            return [f"{source}: commands are not offered, because program_tools is disabled"]
        path = manifest.folder / FILE
        items = feature.command_tools(manifest, self.environment)
        self.loaded.files[path] = items.with_previous_versions(self.previous.files.get(path))
        return []

    def read_context(self) -> list[str]:
        """Load the hooks of `context.py`, and return problems."""
        folder, loaded = self.loaded.manifest.folder, self.loaded
        paths = (folder / "context.py", folder / "src" / "context.py")
        path = next((candidate for candidate in paths if candidate.is_file()), None)
        if path is None:
            return []
        relative = path.relative_to(folder).as_posix()
        try:
            self._store_hooks(loaded.namespace.load(path), relative)
            return []
        except IMPORT_ERRORS as error:
            source, reason = error_location(error, folder, relative)
            problem = f"{source}: {reason}"
            if not any(earlier.startswith(problem) for earlier in self.previous.problems):
                _log_author_lines(error, folder, relative, source, reason)
        previous = self.previous
        if previous.create_context or previous.lifespan or previous.around_call:
            loaded.create_context, loaded.around_call = previous.create_context, previous.around_call
            loaded.lifespan = previous.lifespan
            return [f"{problem} (the previous version is served)"]
        loaded.create_context = _failing_context(problem)
        return [problem]

    def _store_hooks(self, module: Any, location: str) -> None:
        """Store the hooks. Raises: RegistrationError if the file defines no hook, or a hook in the wrong
        form.
        """
        hooks = {name: getattr(module, name, None) for name in HOOKS}
        if not any(hooks.values()):
            raise RegistrationError(
                f"defines no hook; write at least one of: {', '.join(HOOKS.values())}", location
            )
        for name, function in hooks.items():
            if function is not None and not inspect.isfunction(function):
                raise RegistrationError(f"{name} must be a function: write {HOOKS[name]}", location)
        create, lifespan, around = hooks.values()
        loaded, previous_lifespan = self.loaded, self.previous.lifespan
        if lifespan is not None and not inspect.isasyncgenfunction(lifespan):
            lifespan = inspect.unwrap(lifespan)  # may have @asynccontextmanager
        if lifespan is not None and not inspect.isasyncgenfunction(lifespan):
            source = f"{location}:{lifespan.__code__.co_firstlineno}"
            raise RegistrationError("lifespan must be an `async def` with one `yield`", source)
        if around is not None and not inspect.iscoroutinefunction(around):
            source = f"{location}:{around.__code__.co_firstlineno}"
            raise RegistrationError("around_call must be an `async def`", source)
        loaded.create_context = None if create is None else _awaitable_context(create, location)
        loaded.around_call = around
        if lifespan is not None and previous_lifespan is not None and previous_lifespan.function is lifespan:
            loaded.lifespan = previous_lifespan
        elif lifespan is not None:
            loaded.lifespan = Lifespan(lifespan, location, loaded.manifest.folder)

    def _read_file(self, kind: str, path: Path, base: Path) -> FileItems:
        """Read the items of a file below `base`. If that fails, return its previous items."""
        folder = self.loaded.manifest.folder
        previous_items = self.previous.files.get(path, FileItems())
        relative = path.relative_to(folder).as_posix()
        name = path.relative_to(base).with_suffix("").as_posix()
        if reason := why_unreadable(path, folder):
            return unreadable_file(FileItems(), kind, dashed(name), reason, relative)
        try:
            if path.suffix == ".py":
                return self._read_python(kind, path, relative)
            from mcpdesk.hosting.folder.text_items import read_prompt_file, read_resource_file

            read_text_file = read_resource_file if kind == "resource" else read_prompt_file
            return read_text_file(path, folder, name).with_previous_versions(previous_items)
        except IMPORT_ERRORS as error:
            source, reason = error_location(error, folder, relative)
            if all((each.source, each.reason) != (source, reason) for _, each in previous_items.broken):
                _log_author_lines(error, folder, relative, source, reason)
            is_logged = not isinstance(error, RegistrationError)
            return unreadable_file(previous_items, kind, dashed(name), reason, source, is_logged=is_logged)

    def _read_python(self, kind: str, path: Path, location: str) -> FileItems:
        """Read the items of a Python file. Raises: RegistrationError, or any exception of its code."""
        namespace = self.loaded.namespace
        if "." in path.stem:
            raise RegistrationError("the file name must not contain a dot before .py", location)
        module = namespace.load(path)
        is_unchanged = self.previous.modules.get(path) is module
        self.loaded.modules[path] = module
        previous_items = self.previous.files.get(path)
        if is_unchanged and previous_items is not None:
            return previous_items
        source = namespace.sources[module.__name__]
        helpers = tuple(helper.tree for helper in namespace.imported_files(path))
        file = ModuleFile(module, location, source.tree, helpers, self.environment)
        return read_module(file, kind).with_previous_versions(previous_items)


def _files_below(base: Path) -> Iterator[Path]:
    """Yield the files in a stable order, without hidden files, compiled files and editor backups."""
    for root, folders, names in os.walk(base):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        for name in sorted(names):
            if name[0] not in "._" and not name.endswith(("~", ".pyc", ".swp", ".tmp")):
                yield Path(root, name)


def _may_define_items(kind: str, path: Path, base: Path) -> bool:
    """Return True if a file may define items. Python files in subfolders may only be helpers."""
    if path.suffix == ".py":
        return path.parent == base
    return kind == "resource" or (kind == "prompt" and path.suffix in (".md", ".markdown"))


def _awaitable_context(function: Any, location: str) -> CreateContext:
    """Return an asynchronous version of `create_context`. Raises: RegistrationError for a generator."""
    try:
        return awaitable(function)
    except RegistrationError as error:
        error.source = f"{location}:{function.__code__.co_firstlineno}"
        raise


def _failing_context(problem: str) -> CreateContext:
    """Return a `create_context` that raises an error, for a `context.py` that cannot be loaded."""

    async def create_context(_request: RequestView) -> Any:
        raise HandlerError(problem)

    return create_context


def _log_author_lines(error: BaseException, folder: Path, location: str, source: str, reason: str) -> None:
    """Log the lines of a traceback that belong to the author's code.

    A RegistrationError is not logged, because its message already names the source line.
    """
    if not isinstance(error, RegistrationError):
        from mcpdesk.server.calls.outcomes import read_author_lines

        lines = read_author_lines(error, folder)[0]
        _log.error("%s cannot be read: %s\n%s", location, reason, lines, extra={"where": source})


def error_location(error: BaseException, folder: Path, location: str) -> tuple[str, str]:
    """Return the source line in the folder where an error was raised, as `file:line`, and the message."""
    if isinstance(error, RegistrationError):
        return error.source, error.message
    from mcpdesk.server.calls.outcomes import described, error_text

    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_relative_to(folder):
        file, line, text = error.filename, error.lineno or 1, error.msg
    else:
        frames = [
            frame for frame in traceback.extract_tb(error.__traceback__) if _is_below(frame.filename, folder)
        ]
        if not frames:
            return location, described(error)
        file, line, text = frames[-1].filename, frames[-1].lineno or 1, error_text(error)
    return f"{Path(file).relative_to(folder).as_posix()}:{line}", f"{type(error).__name__}: {text}"


def _is_below(filename: str, folder: Path) -> bool:
    return Path(filename).is_relative_to(folder)


def read_module(file: ModuleFile, kind: str) -> FileItems:
    """Read the items of a module.

    `kind` is `tool`, `prompt` or `resource`. Public functions without a decorator become items of this kind,
    except resources, which need the decorator.
    """
    items = FileItems()
    offered_functions = list(_functions_to_offer(file.module, kind))
    functions = [function for function, _ in offered_functions]
    for (function, note), fingerprint in zip(offered_functions, file.fingerprints(functions), strict=True):
        name = _item_name(note, function, file)
        try:
            variable_names = _required_variables(note, file)
            items.required_variables |= {
                variable: variable_hash(file.environment.get(variable, "")) for variable in variable_names
            }
            _check_variables_set(variable_names, file)
            item = _builder(note.kind)(file, function, note, name)
            _check_extras(item)
            items.items.append(replace(item, fingerprint=fingerprint))
        except RegistrationError as error:
            error.source = error.source or file.location(function)
            items.refuse(_item_kind(note), name, error)
    items.remarks += _remarks(file, kind, functions)
    items.may_be_helper = not any(
        note_of(function) or _is_async(function) or function.__name__ == "handler" for function in functions
    )
    return items


def _is_async(function: Function) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _remarks(file: ModuleFile, kind: str, functions: list[Function]) -> Iterator[str]:
    """Yield remarks about functions that are probably offered, or not offered, by accident."""
    if not functions:
        yield f"{file.path}: offers nothing; {OFFER_ADVICE[kind]}"
        return
    has_decorated = any(note_of(function) is not None for function in functions)
    if not has_decorated:
        yield from _probable_helpers(file, kind, functions)
        return
    for function in vars(file.module).values():
        if (
            not _is_own(function, file.module)
            or function.__name__.startswith("_")
            or note_of(function) is not None
        ):
            continue
        if function in functions:
            message = (
                f"is a {kind} without a decorator, while others in the file have one; write @{kind} above it"
            )
            message += f", or name it _{function.__name__} if it is a helper"
            yield f"{file.location(function)}: {function.__name__} {message}"
        elif inspect.iscoroutinefunction(function):
            message = "is not offered: others in the file have a decorator"
            yield f"{file.location(function)}: {function.__name__} {message}"


def _probable_helpers(file: ModuleFile, kind: str, functions: list[Function]) -> Iterator[str]:
    """Yield remarks about plain functions that are probably helpers but are offered.

    Such a function has no docstring, and it is next to `async` functions or is called in its own file.
    """
    has_async = any(_is_async(function) for function in functions)
    callers = {
        node.func.id: function.name
        for function in file.tree.body
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id != function.name
    }
    for function in functions:
        name = function.__name__
        if (
            _is_async(function)
            or inspect.getdoc(function)
            or name == "handler"
            or not (has_async or name in callers)
        ):
            continue
        caller = f" that {callers[name]} calls" if name in callers else ""
        text = f"is served as a {kind}, but is a plain function without docstring or decorator{caller}"
        remedy = f"rename it to _{name} if it is a helper, or else add a docstring"
        yield f"{file.location(function)}: {name} {text}; {remedy}"


def _functions_to_offer(module: ModuleType, kind: str) -> Iterator[tuple[Function, Note]]:
    """Yield the functions to offer, with the data of their decorators.

    Functions with a decorator are offered. Public functions without one are offered, too, except in
    `resources`. A tool module with a `handler` and no decorator offers only the handler.
    """
    own_functions = [function for function in vars(module).values() if _is_own(function, module)]
    notes = {function: note_of(function) for function in own_functions}
    if kind == "tool" and not any(notes.values()) and inspect.isfunction(vars(module).get("handler")):
        yield module.handler, Note("handler")
        return
    for function, note in notes.items():
        if note is not None:
            yield function, note
        elif kind != "resource" and not function.__name__.startswith("_"):
            yield function, Note(kind)


def _is_own(value: Any, module: ModuleType) -> bool:
    """Return True if a value is a function that the module itself defines."""
    return inspect.isfunction(value) and value.__module__ == module.__name__ and value.__name__ != "<lambda>"


def _item_kind(note: Note) -> str:
    """Return the kind of the item that a decorator creates."""
    if note.kind == "resource" and "{" in note.uri:
        return "template"
    return "tool" if note.kind == "handler" else note.kind


def _item_name(note: Note, function: Function, file: ModuleFile) -> str:
    """Return the name of an item, or the URI of a resource."""
    if note.kind == "resource":
        return note.uri
    stem = file.path.rpartition("/")[2].removesuffix(".py")
    if note.kind == "handler":
        return str(getattr(file.module, "NAME", "") or dashed(stem))
    return note.name or dashed(function.__name__)


def _required_variables(note: Note, file: ModuleFile) -> tuple[str, ...]:
    """Return the environment variables that an item requires."""
    if note.kind != "handler":
        return note.requires_env
    value = vars(file.module).get("REQUIRES_ENV", ())
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        location = f"{file.path}:{file.line_of('REQUIRES_ENV')}"
        raise RegistrationError(f"REQUIRES_ENV must be a name or a list of names, not {value!r}", location)
    return tuple(names)


def _check_variables_set(variable_names: tuple[str, ...], file: ModuleFile) -> None:
    """Raise MissingPrecondition if a required variable is unset or empty."""
    for variable in variable_names:
        if not file.environment.get(variable):
            raise MissingPrecondition.of_variable(variable)


def _check_extras(item: Item) -> None:
    """Check optional fields. An invalid value would make clients reject the whole list of items."""
    annotations = {} if isinstance(item, Prompt) else item.annotations
    try:
        for name in ("title", "description"):
            if not isinstance(getattr(item, name), str):
                raise ValueError(f"{name} must be a text")
        check_meta_keys(item.meta)
        check_icons(item.icons)
        if annotations:
            from mcpdesk.protocol.catalogue.annotations import check_annotations, check_hints  # rarely needed

            (check_hints if isinstance(item, Tool) else check_annotations)(annotations)
        encode_part([item.meta, annotations])
    except ValueError as error:
        raise RegistrationError(str(error)) from None
    except LocalProtocolError as error:
        raise RegistrationError(f"_meta or annotations: {error.message}") from None


def _builder(kind: str) -> Callable[[ModuleFile, Function, Note, str], Item]:
    """Return the function that makes an item of a kind of decorator."""
    if kind in ("tool", "handler"):
        return typed_tool if kind == "tool" else handler_tool
    # Imported here, because most folders have only tools.
    from mcpdesk.hosting.folder.module_items import typed_prompt, typed_resource

    return typed_resource if kind == "resource" else typed_prompt


OFFER_ADVICE = {
    "tool": "write a function",
    "prompt": "write a function",
    "resource": "decorate a function with @resource",
}
"""Advice about a file that offers nothing, by kind of item."""
