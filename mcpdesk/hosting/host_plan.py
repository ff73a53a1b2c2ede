"""Settings in force and the plan of a core, from folders and flags."""

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
    """Servers that a core hosts and addresses where it listens."""

    folders: tuple[Path, ...]
    settings: Settings
    upstreams: tuple[UpstreamPlan, ...] = ()
    """Upstream servers, remote or started as programs."""
    origins: dict[str, str] = field(default_factory=dict)
    http: bool = True
    may_move: bool = False
    """Use the next free port if the configured one is taken."""
    meet: bool = True
    """Listen where `mcpdesk stdio FOLDER` looks for a running core."""
    watch: bool = True
    draws_first: bool = False
    """Wait briefly for the first drawing of the screen before accepting clients and watching files."""
    capture: Path | None = None
    """The capture file; None keeps frames in memory only."""
    reports: bool = False
    """Send traces and metrics to the configured collector. False for a process that makes a single call."""
    mode: str = ""
    """Serve every folder in this mode only."""
    waits: bool = False
    """Withhold a folder with an invalid `mcp.json` until it is fixed, instead of failing to start."""
    faults: str = ""
    """Fault rules, one per line."""
    is_brief: bool = False
    """Serve one call and end: callbacks are left to other processes, and background programs are refused."""
    is_unsure: bool = False
    """True if the settings in the `mcp.json` of the first folder could not be read."""

    @property
    def serves_socket(self) -> bool:
        """True if HTTP is served on a Unix socket instead of on TCP, because `--socket` was given."""
        is_given = self.origins.get("socket", "").startswith("flag")
        return self.http and self.settings.socket is not None and is_given


def effective_settings(
    flags: Mapping[str, object], environ: Mapping[str, str], folder: Path | None = None
) -> Resolved:
    """Return the settings in force, including those of `folder`'s env files and manifest.

    Raises: DeskUserError for an invalid value; ManifestError for an unusable manifest.
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
    """Return the plan of a core. The settings of the first folder are those of the core.

    With `waits`, a folder with an invalid manifest is withheld until it is fixed. If that leaves the settings
    of the first folder unknown (`is_unsure`), the other folders are withheld too, because they may require a
    key.

    Raises: DeskUserError and ManifestError as `effective_settings`; with `waits`, ManifestError only for a
    folder that is missing.
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
    """Return the settings of a fixed manifest that take effect only when the core starts again.

    They are named like `settings.port`. The core could not read them when it started. Settings of folders
    other than the first never take effect.
    """
    if not plan.is_unsure or not is_first:
        return []
    return sorted(
        f"settings.{name}"
        for name, value in manifest.settings.items()
        for given in within_rights(GivenValue(BY_NAME[name], value, FILE))
        if plan.origins.get(name) == "default" and converted(given) != getattr(plan.settings, name)
    )


def ignored_settings(folders: Sequence[Path]) -> list[str]:
    """Return warnings about settings of folders other than the first one, which are ignored."""
    found = []
    for folder in folders:
        try:
            manifest = read_manifest(folder)
        except ManifestError:
            continue  # the error is reported where the folder is hosted
        given = [GivenValue(BY_NAME[name], value, FILE) for name, value in manifest.settings.items()]
        given += env_file_settings(folder)
        if names := sorted({each.setting.name for value in given for each in within_rights(value)}):
            what = f"{', '.join(names)} of {manifest.name}"
            found.append(f"{what} are ignored: the core uses the settings of the first folder")
    return found


def separate_policies(plan: HostPlan) -> tuple[Settings, dict[str, Policy]]:
    """Return the settings of a plan without the policies set by a folder, and those policies."""
    settings = plan.settings
    if not is_from_folder(plan.origins.get("approvals", "")):
        return settings, {}
    return replace(settings, approvals=()), policies_of(settings.approvals)


def capture_path(state: Path, names: Sequence[str]) -> Path:
    """Return the path of a new capture, such as `captures/2026-11-20T09-30-00-profiles.jsonl`."""
    name = names[0] if names else "desk"
    return paths.captures_folder(state) / f"{time.strftime('%Y-%m-%dT%H-%M-%S')}-{name}.jsonl"


def rules_of(settings: Settings, key: str) -> Rules:
    """Return the HTTP settings as rules for callers, who must send `key` unless it is empty."""
    names = [name for name in Rules.__struct_fields__ if name != "api_key"]
    return Rules(api_key=key, **{name: getattr(settings, name) for name in names})
