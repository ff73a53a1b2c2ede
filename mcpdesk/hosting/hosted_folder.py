"""One server folder hosted by a core. The folder is read again whenever a file is saved."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import os
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mcpdesk.errors import (
    DeskUserError,
    HandlerError,
    ManifestError,
    OtherEnvironmentError,
    StorageError,
    UnknownMode,
)
from mcpdesk.features import features_with
from mcpdesk.hosting.folder.folder_rights import refusals, strictest
from mcpdesk.hosting.folder.loader import LoadedFolder, load_folder
from mcpdesk.hosting.folder.manifest import FILE, LOCK_NAME, Manifest, placeholder_manifest, suggestion
from mcpdesk.hosting.folder.module_items import BuiltIn, Function, typed_tool
from mcpdesk.hosting.folder.namespace import Namespace
from mcpdesk.hosting.folder.reload import OfferChanges, apply, listed
from mcpdesk.hosting.journal import Journal, Notice, Severity
from mcpdesk.hosting.server_access import AccessGate, access_warnings
from mcpdesk.hosting.server_modes import Modes
from mcpdesk.paths import config_folder
from mcpdesk.server.asks.approval_policies import EVERY_TOOL, Policy, policies_of
from mcpdesk.server.offer.authoring import Note, note_of
from mcpdesk.server.offer.listing import WIRE
from mcpdesk.server.offer.registry import Registry, Unavailable
from mcpdesk.server.offer.resources import Resource, ResourceTemplate
from mcpdesk.server.offer.server import Limits, Server
from mcpdesk.server.offer.tool import Tool
from mcpdesk.server.state.lifespan import Lifespan
from mcpdesk.server.state.server_state import ServerState, ToolOptions
from mcpdesk.settings import ENV_FILES, Settings
from mcpdesk.tools import BUILTINS

if TYPE_CHECKING:
    from mcpdesk.hosting.environment import FolderVariables, Variables
    from mcpdesk.hosting.folder.skill_items import SkillSet
    from mcpdesk.protocol.catalogue.contract import ContractChange, Definitions
    from mcpdesk.server.state.server_state import SharedState

POLICY_MEANINGS = {
    Policy.ALLOW: "clients may call it",
    Policy.ASK: "calls of clients wait here for approval",
    Policy.DENY: "neither clients nor this desk may call it",
}
"""Explanation of each policy for a person."""


class FolderReading(Struct, frozen=True):
    """Content of a folder's files at one moment. Read on any thread and applied on the loop."""

    loaded: LoadedFolder
    skills: SkillSet | None
    """None if the folder has no skills and never had any."""
    refused: list[str]
    """Values in the folder that are ignored, with reasons."""
    code_reads: set[str]
    """Environment variables that the folder's code reads. Empty if they were not searched for."""


class HostedFolder:
    """Server that offers the content of a folder. If a file is broken, its previous version is served."""

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        journal: Journal,
        restart_settings: Callable[[Manifest], list[str]] | None = None,
        mode: str = "",
        state_of: Callable[[str], SharedState] | None = None,
        folder_policies: Mapping[str, Policy] = MappingProxyType({}),
    ) -> None:
        """Read the folder.

        With `restart_settings`, a folder with an invalid manifest is withheld until it is fixed. The function
        receives the fixed manifest, and returns the settings that need a restart of the core. While such
        settings exist, the folder remains withheld. `mode` is the only mode served; a fixed manifest must
        define it. `state_of` returns the shared state of a server, or is None if the state is in a file.
        `folder_policies` are approval policies in the settings that came from a folder. They can only make
        this folder's own policies stricter.

        Raises: ManifestError if the folder cannot be hosted at all.
        """
        self._settings = settings
        self._journal = journal
        self._restart_settings = restart_settings
        self._mode = mode
        self._folder_policies = folder_policies
        self._hold_reason = ""
        """Reason given to `hold_back`, or "" if the folder is not held back."""
        self._lifespan: Lifespan | None = None
        """Lifespan that is running, or None."""
        self._chores = set[asyncio.Task[None]]()
        self._is_awake = False
        self._variables: FolderVariables | None = None
        self._code_reads = set[str]()
        """Environment variables that the code reads. Empty until `find_code_variables` has returned."""
        self._has_reloaded = False
        self._put_variables(self._read_variables(folder.expanduser()))
        manifest_error: ManifestError | None = None
        try:
            self._loaded = load_folder(folder)
        except ManifestError as error:
            if restart_settings is None:
                raise
            manifest, manifest_error = placeholder_manifest(folder), error
            self._loaded = LoadedFolder(manifest, Namespace(manifest.folder))
        self.folder = self._loaded.manifest.folder
        name = self._loaded.manifest.name
        self.server = Server(name, limits=_limits(settings), tools_enabled=settings.tools)
        self.server.streaming = settings.streaming
        state = settings.state_dir / "servers" / _state_name(name, self.folder)
        self._skills = (self.folder / "skills", self.folder / "src" / "skills", config_folder() / "skills")
        shared = None if state_of is None else state_of(name)
        self._state = ServerState(self.folder, state, self._skills, _tool_options(settings), shared)
        self.server.hosted = self._state
        self.modes = Modes(self.server)
        self._gate = AccessGate(name, self.folder, self._report_key_problem)
        self._apply(self._with_skills(self._loaded, set()))
        for item in self._unavailable():
            if not item.is_logged:
                journal.log("warning", "server", f"{item.name}: {item.reason}", item.source, self.server.name)
        for problem in self._loaded.problems:
            journal.log("error", "server", problem, "", self.server.name)
        for helper in self.server.helpers:
            journal.log("info", "server", helper, "", self.server.name)
        for warning in self.warnings:
            location, _, message = warning.partition(": ")
            journal.log("warning", "server", message, location, self.server.name)
            if warning in self._refused:
                journal.keep_notice(Notice(0, f"{name}: {warning}", Severity.WARNING, "logs"))
        if manifest_error is not None:
            self._withhold(manifest_error)

    async def watch(self, reload: Callable[[], None]) -> None:
        """Call `reload` after every change, until cancelled."""
        from mcpdesk.hosting.folder.reload import watch

        await watch(self.folder, lambda _: reload(), self._settings.watch_polling)

    async def reload(self) -> OfferChanges:
        """Read the folder, serve what changed, and report it. Only one call may run at a time."""
        start_time = time.perf_counter()
        self._put_variables(await asyncio.to_thread(self._read_variables, self.folder))
        name, old_warnings, removed_modes = self.server.name, self.warnings, self.modes.removed
        try:
            reading, agreed_offer = await asyncio.to_thread(self._read)
            if self._hold_reason:
                raise ManifestError(self._hold_reason, str(self.folder / FILE))
        except ManifestError as error:
            if self.server.withheld:
                self._withhold(error)
            else:
                self._journal.notify(
                    f"{name}: {error}; the previous version is served", Severity.ERROR, "logs"
                )
            return OfferChanges()
        old_helpers, old_problems = self.server.helpers, self.server.problems
        old_offer = definitions(self.server)
        changes = self._apply(reading)
        self._code_reads = reading.code_reads
        self._has_reloaded = True
        if self._is_awake:
            self._switch_lifespan()
        if self.server.withheld:
            self.server.withheld = ""
            self.modes.refresh()
            self._journal.notify(f"{name}: {FILE} is fixed, {name} is served", Severity.INFO, "workbench")
        if self._loaded.manifest.name != name:
            self._journal.notify(f"{name}: a new name takes effect at the next start", Severity.WARNING)
        self._report_new_problems(old_problems, old_helpers, old_warnings, removed_modes)
        for item in self._unavailable():
            if item.name in changes.broken and not item.is_logged:
                self._journal.log("error", "server", f"{item.name}: {item.reason}", item.source, name)
        if summary := changes.summary():
            if self._state.folder_loops is not None:
                self._state.folder_loops.return_to_core_loop()
            took_ms = (time.perf_counter() - start_time) * 1000
            message = f"{name} reloaded in {took_ms:.0f} ms: {summary}"
            self._report_changes(changes, message, old_offer, agreed_offer)
        return changes

    def _report_new_problems(
        self,
        old_problems: Collection[str],
        old_helpers: Collection[str],
        old_warnings: Collection[str],
        removed_modes: Collection[str],
    ) -> None:
        """Report the problems, helper files, warnings and removed modes that the last reload added."""
        name = self.server.name
        for problem in self.server.problems:
            if problem not in old_problems:
                self._journal.notify(f"{name}: {problem}", Severity.ERROR, "logs")
        for helper in self.server.helpers:
            if helper not in old_helpers:
                self._journal.notify(f"{name}: {helper}", Severity.INFO, "logs")
        for mode in sorted(self.modes.removed.difference(removed_modes)):
            message = f"the mode {mode} no longer exists; clients that use it now receive no tools"
            self._journal.notify(f"{name}: {message}", Severity.WARNING)
        known_messages = {_without_location(warning) for warning in old_warnings}
        for warning in self.warnings:
            if _without_location(warning) not in known_messages:
                self._journal.notify(f"{name}: {warning}", Severity.WARNING, "logs")

    def _report_changes(
        self, changes: OfferChanges, message: str, old_offer: Definitions, agreed_offer: Definitions | None
    ) -> None:
        """Report what a reload changed, first of all what it broke.

        `message` has the duration and the summary of the reload. The new definitions are compared with
        `agreed_offer`, or with those before the reload if none were agreed.
        """
        from mcpdesk.protocol.catalogue.contract import contract_changes, contract_part

        name = self.server.name
        new_offer = {key: contract_part(item) for key, item in definitions(self.server).items()}
        differences = contract_changes(old_offer if agreed_offer is None else agreed_offer, new_offer)
        breaking = [change for change in differences if change.is_breaking]
        other_changes = _also_changed(differences) if agreed_offer is None else ""
        logged = ""
        if breaking:
            count_text = f" and {len(breaking) - 1} more" if len(breaking) > 1 else ""
            affected_party = "clients" if agreed_offer is None else LOCK_NAME
            source = _sources(self.server).get((breaking[0].kind, breaking[0].name), "")
            location = f" ({source})" if source else ""
            text = f"{name} breaks {affected_party}: {breaking[0]}{location}{count_text}{other_changes}"
            message = f"{text} · {message.removeprefix(f'{name} ')}"
        elif broken_reason := next(filter(None, map(self._why_broken, changes.broken)), ""):
            logged = message  # the reason is already in the log
            message = f"{name}: {broken_reason} · {message.removeprefix(f'{name} ')}"
        else:
            message += other_changes
        severity = Severity.WARNING if breaking else Severity.INFO
        if changes.broken:
            severity = Severity.ERROR
        self._journal.notify(message, severity, f"workbench/save/{name}", logged=logged)

    def _read(self) -> tuple[FolderReading, Definitions | None]:
        """Read the folder again, and its agreed definitions. Raises: ManifestError."""
        loaded = load_folder(self.folder, self._loaded)
        if self.server.withheld:
            self._check_fixed(loaded.manifest)
        return self._with_skills(loaded, self._variables_of_code()), self._agreed_contract()

    def _with_skills(self, loaded: LoadedFolder, code_reads: set[str]) -> FolderReading:
        """Add the skills and the ignored values to the loaded items of the folder."""
        has_invoke_skill = "InvokeSkill" in loaded.manifest.builtins
        # The last base has the person's own skills. These skills need the InvokeSkill tool.
        bases = self._skills if has_invoke_skill else self._skills[:-1]
        skills = None
        if has_invoke_skill or self.server.skills.version or any(base.is_dir() for base in bases):
            from mcpdesk.hosting.folder.skill_items import read_skills

            skills = read_skills(bases)
        try:
            refused = list(refusals(loaded.manifest.folder, loaded.manifest))
        except DeskUserError:  # `_read_variables` reports an unreadable env file
            refused = []
        return FolderReading(loaded, skills, refused, code_reads)

    def _agreed_contract(self) -> Definitions | None:
        """Return the agreed definitions of the folder, or None if there are none."""
        lock_file = self.folder / LOCK_NAME
        contracts = (feature.agreed_definitions(lock_file) for feature in features_with("agreed_definitions"))
        return next((contract for contract in contracts if contract is not None), None)

    def hold_back(self, reason: str) -> None:
        """Withhold the server until `release`, because another folder is invalid."""
        self._hold_reason = reason
        if not self.server.withheld:
            self._withhold(ManifestError(reason, str(self.folder / FILE)))

    def release(self) -> bool:
        """Undo `hold_back`. Return True if the folder was held back and must be read again."""
        was_held_back = bool(self._hold_reason)
        self._hold_reason = ""
        return was_held_back

    def _withhold(self, error: ManifestError) -> None:
        """Withhold the server. Report the reason unless it was already reported."""
        if str(error) == self.server.withheld:
            return
        self.server.withheld = str(error)
        source = FILE if error.line is None else f"{FILE}:{error.line}"
        self.server.tools.replace((), [Unavailable(FILE, error.message, source)])
        message = f"{self.server.name} is not served: {error}"
        self.modes.refresh()
        self._journal.notify(message, Severity.ERROR, "workbench")

    def _check_fixed(self, manifest: Manifest) -> None:
        """Check a fixed manifest. Raises: ManifestError if a change needs a restart of the core."""
        if self._mode and self._mode not in manifest.modes:
            raise ManifestError(str(UnknownMode(manifest.name, self._mode, tuple(manifest.modes))), FILE)
        restart_reasons = self._restart_settings(manifest) if self._restart_settings is not None else []
        if manifest.name != self.server.name:
            restart_reasons.insert(0, f"the name {manifest.name!r}")
        if restart_reasons:
            message = f"{', '.join(restart_reasons)} take effect at the next start: restart mcpdesk"
            raise ManifestError(message, str(self.folder / FILE))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the manifest: names of tools that do not exist, and errors in the token rules."""
        manifest, known_tools = self._loaded.manifest, self.tools
        approvals = [(("approvals", name), f"approvals.{name}", name) for name in manifest.approvals]
        modes = [
            (("modes", mode_name, "tools", index), f"modes.{mode_name}.tools", name)
            for mode_name, mode in manifest.modes.items()
            for index, name in enumerate(mode.tools)
        ]
        needs = [(("auth", "tools", name), f"auth.tools.{name}", name) for name in manifest.auth.tools]
        missing = [
            f"{manifest.source(*path)}: {key}: {no_tool(name, known_tools)}"
            for path, key, name in (*approvals, *modes, *needs)
            if name not in known_tools or (name == EVERY_TOOL and path[0] != "approvals")
        ]
        auth_warnings = access_warnings(manifest.auth, self.server.tools)
        access = (f"{manifest.source(*path)}: {'.'.join(path)}: {problem}" for path, problem in auth_warnings)
        return (*self._refused, *missing, *access)

    @property
    def tools(self) -> frozenset[str]:
        """Names that a list of tools may contain: available tools, unavailable tools, and `*`."""
        tools = self.server.tools
        return frozenset(
            {EVERY_TOOL, *(tool.name for tool in tools), *(tool.name for tool in tools.unavailable)}
        )

    def _read_variables(self, folder: Path) -> Variables | None:
        """Read the folder's env files, and report an invalid one. None if one is invalid, or none exists."""
        if self._variables is None:
            if not any((folder / name).exists() for name in ENV_FILES):
                return None
            from mcpdesk.hosting.environment import FolderVariables

            self._variables = FolderVariables(folder)
        try:
            return self._variables.read()
        except DeskUserError as error:
            self._journal.notify(f"{error.message} {error.hint}", Severity.ERROR, "logs")
            return None

    def _put_variables(self, variables: Variables | None) -> None:
        """Add the variables of the env files to the environment, unless they could not be read."""
        if self._variables is not None and variables is not None:
            self._variables.put(variables)

    @property
    def secret_variable(self) -> str:
        """Environment variable with the secret that signs tokens, or "" if the manifest names none."""
        jwt = self._loaded.manifest.auth.jwt
        return jwt.secret_env if jwt is not None else ""

    def _variables_of_code(self) -> set[str]:
        """Return the environment variables that the code reads. May be called on any thread."""
        from mcpdesk.hosting.folder.read_variables import variables_in

        return variables_in(self.folder)

    async def find_code_variables(self) -> None:
        """Find the variables that the code reads. Call it before other processes connect."""
        variables = await asyncio.to_thread(self._variables_of_code)
        if not self._has_reloaded:
            self._code_reads = variables

    def environment_for(
        self, peer: str, environment: Mapping[str, str], hidden: Collection[str]
    ) -> dict[str, str]:
        """Return the environment for calls of a client in another process, without hidden variables.

        Call `find_code_variables` first. Raises: OtherEnvironmentError if a variable that the code reads has
        another value in the client's process. A separate process must then serve that client.
        """
        variables = {} if self._variables is None else self._variables.variables
        for name in sorted((self._code_reads | self.variables.keys()) - set(hidden)):
            is_from_folder = name in variables and name not in environment
            if not is_from_folder and environment.get(name) != os.environ.get(name):
                reason = f"code of {self.server.name} reads {name}, which differs for this client"
                self._journal.log("info", "server", f"{peer} is served by a separate process: {reason}")
                raise OtherEnvironmentError(reason)
        return {name: value for name, value in {**variables, **environment}.items() if name not in hidden}

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that items require. Each is mapped to a file that requires it."""
        variable_names = {
            variable: path.relative_to(self.folder).as_posix()
            for path, file in self._loaded.files.items()
            for variable in file.required_variables
        }
        return dict(sorted(variable_names.items()))

    async def wake(self) -> None:
        """Restore the state of a previous run."""
        try:
            await self._state.wake()
        except StorageError as error:
            self._journal.notify(f"{self.server.name}: {error}", Severity.ERROR, "logs")
        self._is_awake = True
        self._switch_lifespan()

    def _switch_lifespan(self) -> None:
        """Start the lifespan of the current `context.py`, and end that of the previous version."""
        new_lifespan, old_lifespan = self.server.lifespan, self._lifespan
        if new_lifespan is old_lifespan:
            return
        self._lifespan = new_lifespan
        if old_lifespan is not None:
            self._start_chore(old_lifespan.close())
        if new_lifespan is not None:
            self._start_chore(self._enter_lifespan(new_lifespan))

    async def _enter_lifespan(self, lifespan: Lifespan) -> None:
        """Start a lifespan, and report a failure."""
        try:
            await lifespan.state(self.server)
        except HandlerError as error:
            self._journal.notify(f"{self.server.name}: {error.message}", Severity.ERROR, "logs")

    def _start_chore(self, work: Coroutine[Any, Any, None]) -> None:
        chore = asyncio.create_task(work)
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)

    def withdraw(self) -> None:
        """Remove all offers, and notify clients that the lists changed."""
        for registry in (
            self.server.tools,
            self.server.resources,
            self.server.templates,
            self.server.prompts,
            self.server.skills,
        ):
            registry.replace(())
        self.modes.refresh()

    async def reload_state(self) -> None:
        """Load state that another process has written. Log a failure."""
        try:
            await self._state.reload()
        except StorageError as error:
            self._journal.log("warning", "server", str(error), "", self.server.name)

    def stop(self) -> None:
        """Start no more tool calls."""
        self._state.stop()

    async def close(self) -> None:
        """End all work of the server."""
        if self._variables is not None:
            self._variables.withdraw()
        self._gate.close()
        if self._lifespan is not None:
            await self._lifespan.close()
        await asyncio.gather(*self._chores, return_exceptions=True)
        await self._state.close()

    async def choose_policy(self, tool: str, policy: Policy) -> None:
        """Set the policy of a tool, and report it."""
        approvals = self._state.approvals
        time_limit = ""
        try:
            await approvals.choose(tool, policy)
        except StorageError as error:
            time_limit = f" until the server stops, because {error}"
        ruling = approvals.effective_policy(tool)
        meaning = POLICY_MEANINGS[ruling.policy]
        text = f"{tool}: {ruling.policy} ({ruling.origin or 'default'}){time_limit}, {meaning}"
        self._journal.notify(text, Severity.WARNING if time_limit else Severity.INFO)

    async def revoke(self, tool: str, peer: str) -> None:
        """Withdraw a peer's approval for a tool, and report it. The next call needs approval again."""
        name = peer.partition(":")[2]
        try:
            await self._state.approvals.revoke(tool, peer)
        except StorageError as error:
            self._journal.notify(f"{name} can still call {tool}: {error}", Severity.ERROR)
        else:
            self._journal.notify(f"{name} can no longer call {tool} without approval")

    def _report_key_problem(self, problem: str) -> None:
        self._journal.notify(f"{self.server.name}: {problem}", Severity.WARNING, "logs")

    def _apply(self, reading: FolderReading) -> OfferChanges:
        """Serve what was read. Return what changed."""
        self._loaded, self._refused, skills = reading.loaded, reading.refused, reading.skills
        builtin_names = list(dict.fromkeys(self._loaded.manifest.builtins))
        builtins = [built_in(name) for name in builtin_names if name in BUILTINS]
        unknown_names = [name for name in builtin_names if name not in BUILTINS]
        unknown_tools = [Unavailable(name, _unknown_builtin(name), FILE) for name in unknown_names]
        extra_resources = resources_of(name for name in builtin_names if name in BUILTINS)
        own_uris = {resource.uri for resource in self._loaded.resources}
        own_uris |= {template.uri_template for template in self._loaded.templates}
        if skills is not None:
            has_invoke_skill = "InvokeSkill" in builtin_names
            builtins = [skills.with_names(tool) if tool.name == "InvokeSkill" else tool for tool in builtins]
            skill_files = skills.files() if has_invoke_skill else skills.published()
            extra_resources = [*skill_files, *extra_resources]
            self._loaded.unavailable += [("resource", skill) for skill in skills.broken.values()]
            self._state.broken_skills = {
                name: f"{skill.source}: {skill.reason}" for name, skill in skills.broken.items()
            }
            entries = (
                entry for entry in skills.entries if own_uris.isdisjoint(file.uri for file in entry.files)
            )
            self.server.skills.replace(entries, skills.unpublished)
        for resource in extra_resources:
            if isinstance(resource, Resource) and resource.uri not in own_uris:
                self._loaded.resources.append(resource)
            elif isinstance(resource, ResourceTemplate) and resource.uri_template not in own_uris:
                self._loaded.templates.append(resource)
        self.modes.choose(self._loaded.manifest.modes)
        self.server.access = self._gate.update(self._loaded.manifest.auth)
        changes = apply(self._loaded, self.server, builtins, unknown_tools)
        self.modes.refresh()
        manifest = self._loaded.manifest
        self._state.approvals.configure(
            ("setting approvals", policies_of(self._settings.approvals)),
            (FILE, strictest(self._folder_policies, manifest.approvals)),
        )
        return changes

    def _why_broken(self, name: str) -> str:
        """Return the location and error of a broken item, and whether its previous version is served."""
        broken = next((item for item in self._unavailable() if item.name == name and not item.is_fit), None)
        if broken is None:
            return ""
        outcome = "the previous version is served" if broken.is_serving else "not offered"
        return f"{broken.source}: {broken.reason}; {outcome}"

    def _unavailable(self) -> list[Unavailable]:
        """Return the unavailable items of all kinds."""
        server = self.server
        registries = (server.tools, server.resources, server.templates, server.prompts, server.skills)
        return [item for registry in registries for item in registry.unavailable]


def no_tool(name: str, known_names: Iterable[str]) -> str:
    """Return the message about a tool that does not exist."""
    return f"no tool {name!r}{suggestion(name, known_names)}"


def definitions(server: Server) -> Definitions:
    """Return the definitions that a server offers, as its clients receive them."""
    return {
        (registry.kind, registry.key(item)): WIRE[key](item)
        for key, registry in _registries(server).items()
        for item in registry
    }


def _also_changed(changes: Sequence[ContractChange]) -> str:
    """Return the items with compatible or wording changes, as the end of a sentence: ` · wording: price`."""
    from mcpdesk.protocol.catalogue.contract import ContractVerdict

    first_changes = {(change.kind, change.name): change for change in reversed(changes)}
    text = ""
    for verdict in (ContractVerdict.COMPATIBLE, ContractVerdict.WORDING):
        items = (change for change in first_changes.values() if change.verdict is verdict)
        names = [change.name for change in items if change.description != "is new"]
        text += f" · {verdict}: {listed(names[::-1])}" if names else ""
    return text


def _sources(server: Server) -> dict[tuple[str, str], str]:
    """Return the source of each item in the folder's files, such as `tools/price.py:2`."""
    registries = _registries(server).values()
    return {(registry.kind, registry.key(item)): item.source for registry in registries for item in registry}


def _registries(server: Server) -> dict[str, Registry[Any]]:
    return {
        "tools": server.tools,
        "resources": server.resources,
        "resourceTemplates": server.templates,
        "prompts": server.prompts,
        "skills": server.skills,
    }


def _without_location(warning: str) -> str:
    """Return a warning without its file and line, because the line number may have changed."""
    return warning.partition(": ")[2]


def _unknown_builtin(name: str) -> str:
    return f"no built-in tool {name!r}; known: {', '.join(BUILTINS)}"


def _state_name(name: str, folder: Path) -> str:
    """Return a readable folder name. Two servers with the same name get different folder names."""
    return f"{name}-{hashlib.blake2b(str(folder).encode(), digest_size=6).hexdigest()}"


def _tool_options(settings: Settings) -> ToolOptions:
    return ToolOptions(
        output_chars=settings.output_chars,
        outputs_keep_bytes=settings.outputs_keep_bytes,
        ask_order=settings.ask_order,
        model=settings.model,
        settings={name: getattr(settings, name) for tool in BUILTINS.values() for name in tool.settings},
    )


def _limits(settings: Settings) -> Limits:
    return Limits(
        tool_timeout_s=settings.tool_timeout_ms / 1000,
        question_timeout_s=settings.question_timeout_ms / 1000,
        page_size=settings.page_size,
        in_flight=settings.max_in_flight,
        large_bytes=settings.max_bodies_bytes,
        subscriptions=settings.max_subscriptions,
        max_tasks=settings.max_tasks,
        task_ttl_s=settings.task_ttl_s or None,
        job_timeout_s=settings.job_timeout_ms / 1000,
        job_ttl_s=settings.job_ttl_s,
        jobs_at_once=settings.jobs_at_once,
        output_dirs=tuple(Path(directory).expanduser() for directory in settings.output_dirs),
    )


@cache
def built_in(name: str) -> Tool:
    """Return the built-in tool of that name. Raises: KeyError."""
    for function, note in _functions_with_notes(import_module(BUILTINS[name].module)):
        if note.kind == "tool" and note.name == name:
            return typed_tool(BuiltIn(), function, note, name)
    raise KeyError(f"{BUILTINS[name].module} has no tool {name}")


def resources_of(names: Iterable[str]) -> list[Resource | ResourceTemplate]:
    """Return the resources and templates that built-in tools need, without duplicates."""
    return [
        resource
        for module in dict.fromkeys(BUILTINS[name].module for name in names)
        for resource in _resources(module)
    ]


@cache
def _resources(module: str) -> tuple[Resource | ResourceTemplate, ...]:
    from mcpdesk.hosting.folder.module_items import typed_resource

    functions = _functions_with_notes(import_module(module))
    return tuple(
        typed_resource(BuiltIn(), function, note, note.uri)
        for function, note in functions
        if note.kind == "resource"
    )


def _functions_with_notes(module: ModuleType) -> Iterator[tuple[Function, Note]]:
    """Yield the decorated functions of a module, with the data of their decorators."""
    for function in vars(module).values():
        note = note_of(function) if inspect.isfunction(function) else None
        if note is not None:
            yield function, note
