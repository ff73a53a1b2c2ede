"""From folders and flags to the settings in force and the plan of a core."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from mcpdesk import paths
from mcpdesk.errors import ManifestError
from mcpdesk.hosting.folder.folder_rights import is_from_folder
from mcpdesk.hosting.folder.manifest import FILE, Manifest, certain_settings, read_manifest
from mcpdesk.server.asks.approval_policies import Policy, policies_of
from mcpdesk.settings import (
    BY_NAME,
    GivenValue,
    Resolved,
    Settings,
    converted,
    env_file_settings,
    resolve,
    within_rights,
)
from mcpdesk.transports.base import Rules

if TYPE_CHECKING:
    from mcpdesk.upstream.upstream import UpstreamPlan


class HostPlan(Struct, frozen=True):
    """What a core is to host and where it listens."""

    folders: tuple[Path, ...]
    settings: Settings
    upstreams: tuple[UpstreamPlan, ...] = ()
    """Servers that run elsewhere, or as programs of their own."""
    origins: dict[str, str] = field(default_factory=dict)
    http: bool = True
    may_move: bool = False
    """Take the next free port when the chosen one is taken."""
    meet: bool = True
    """Listen where `mcpdesk stdio FOLDER` looks for a running core."""
    watch: bool = True
    draws_first: bool = False
    """Wait for the screen to be drawn, at most a moment, before clients and changes of files are heard."""
    capture: Path | None = None
    """The capture file; None keeps frames in memory only."""
    reports: bool = False
    """Send traces and metrics where a collector was named: what runs once for one call does not."""
    mode: str = ""
    """Serve every folder in this mode only."""
    waits: bool = False
    """Withhold a folder whose `mcp.json` has a mistake until it is mended, rather than not start at all."""
    faults: str = ""
    """Rules of faults, a line each."""
    is_brief: bool = False
    """Serve one call and end: callbacks are left to other processes, programs in the background refused."""
    is_unsure: bool = False
    """Whether the settings in the `mcp.json` of the first folder could not be read."""


def effective_settings(
    flags: Mapping[str, object], environ: Mapping[str, str], folder: Path | None = None
) -> Resolved:
    """The settings in force, with those of `folder`'s env files and manifest.

    Raises: DeskUserError for a bad value; ManifestError for an unusable manifest.
    """
    if folder is None:
        return resolve(flags, environ)
    manifest = read_manifest(folder)
    resolved = resolve(flags, environ, folder, manifest.settings)
    origins = {
        name: manifest.source("settings", name) if origin == FILE else origin
        for name, origin in resolved.origins.items()
    }
    return Resolved(resolved.settings, origins)


def plan_for(
    folders: Sequence[Path],
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    *,
    http: bool = True,
    may_move: bool = False,
    mode: str = "",
    waits: bool = False,
    upstreams: Sequence[UpstreamPlan] = (),
    faults: str = "",
) -> HostPlan:
    """Plan what a core hosts, and in which mode. The first folder's settings are the core's.

    With `waits` a folder with a mistake in its manifest is withheld until it is mended. While that leaves the
    settings of the first folder unknown (`is_unsure`), the others are withheld as well: it may ask for a key.

    Raises: DeskUserError, ManifestError as `effective_settings`; with `waits`, the latter only for a folder
    that is missing.
    """
    is_unsure = False
    try:
        resolved = effective_settings(flags, environ, folders[0] if folders else None)
    except ManifestError:
        known = certain_settings(folders[0]) if waits else None
        is_unsure = known is None
        if not waits:
            raise
        resolved = resolve(flags, environ, folders[0], known)
    return HostPlan(
        folders=tuple(folders),
        settings=resolved.settings,
        upstreams=tuple(upstreams),
        origins=dict(resolved.origins),
        http=http,
        may_move=may_move,
        capture=capture_path(
            resolved.settings.state_dir,
            [*(each.name for each in folders), *(each.name for each in upstreams)],
        )
        if resolved.settings.capture
        else None,
        reports=True,
        mode=mode,
        waits=waits,
        faults=faults,
        is_unsure=is_unsure,
    )


def late_settings(plan: HostPlan, manifest: Manifest, is_first: bool = True) -> list[str]:
    """Settings of a mended manifest, like `settings.port`, that the core could not read when it started and
    that only count from its next start. Those of other folders than the first never count."""
    if not plan.is_unsure or not is_first:
        return []
    return sorted(
        f"settings.{name}"
        for name, value in manifest.settings.items()
        for given in within_rights(GivenValue(BY_NAME[name], value, FILE))
        if plan.origins.get(name) == "default" and converted(given) != getattr(plan.settings, name)
    )


def ignored_settings(folders: Sequence[Path]) -> list[str]:
    """Warnings about settings of folders other than the first one, which do not count."""
    found = []
    for folder in folders:
        try:
            manifest = read_manifest(folder)
        except ManifestError:
            continue  # its mistake is told where it is hosted
        given = [GivenValue(BY_NAME[name], value, FILE) for name, value in manifest.settings.items()]
        given += env_file_settings(folder)
        if names := sorted({each.setting.name for value in given for each in within_rights(value)}):
            what = f"{', '.join(names)} of {manifest.name}"
            found.append(f"{what} do not count: the first folder's settings are the core's")
    return found


def separate_policies(plan: HostPlan) -> tuple[Settings, dict[str, Policy]]:
    """Settings of a plan without policies that a folder gave, and those policies."""
    settings = plan.settings
    if not is_from_folder(plan.origins.get("approvals", "")):
        return settings, {}
    return replace(settings, approvals=()), policies_of(settings.approvals)


def capture_path(state: Path, names: Sequence[str]) -> Path:
    """The path of a new capture: `captures/2026-11-20T09-30-00-profiles.jsonl`."""
    name = names[0] if names else "desk"
    return paths.captures_folder(state) / f"{time.strftime('%Y-%m-%dT%H-%M-%S')}-{name}.jsonl"


def rules_of(settings: Settings, key: str) -> Rules:
    """The settings of HTTP as rules for callers, who must send `key` unless it is empty."""
    names = [name for name in Rules.__struct_fields__ if name != "api_key"]
    return Rules(api_key=key, **{name: getattr(settings, name) for name in names})
