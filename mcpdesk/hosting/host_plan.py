"""Effective settings and the plan of a core, computed from folders and command-line flags."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from mcpdesk import paths
from mcpdesk.errors import ManifestError
from mcpdesk.hosting.folder.folder_rights import is_from_folder
from mcpdesk.hosting.folder.manifest import FILE, Manifest, read_manifest, readable_settings
from mcpdesk.server.asks.approval_policies import Policy, policies_of
from mcpdesk.setting_values import GivenValue, converted
from mcpdesk.settings import BY_NAME, Resolved, Settings, env_file_settings, resolve, within_rights
from mcpdesk.transports.base import Rules

if TYPE_CHECKING:
    from mcpdesk.upstream.upstream import UpstreamPlan


class HostPlan(Struct, frozen=True):
    """Servers that a core hosts, and addresses at which it listens."""

    folders: tuple[Path, ...]
    settings: Settings
    upstreams: tuple[UpstreamPlan, ...] = ()
    """Upstream servers, remote or started as programs."""
    origins: dict[str, str] = field(default_factory=dict)
    """Source of each setting, such as `flag --port`, by name of the setting."""
    http: bool = True
    may_move: bool = False
    """True to use the next free port if the configured one is taken."""
    accepts_pumps: bool = True
    """True to listen where `mcpdesk stdio FOLDER` looks for a running core."""
    watch: bool = True
    draws_first: bool = False
    """True to wait briefly until the screen is drawn, before accepting clients and watching files."""
    capture: Path | None = None
    """Path of the capture file. None keeps frames in memory only."""
    sends_telemetry: bool = False
    """True to send traces and metrics to the configured collector. False for a process that makes one call.
    """
    mode: str = ""
    """Mode of every folder. Empty to serve all tools."""
    withholds_invalid: bool = False
    """True to withhold a folder with an invalid `mcp.json` until it is fixed. If False, the core fails to
    start.
    """
    feature_options: Mapping[str, str] = MappingProxyType({})
    """Values of the command line options of features, by name."""
    is_brief: bool = False
    """True for a process that serves one call and ends. It fires no callbacks and refuses background
    programs.
    """
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
    """Return the effective settings, including those in the manifest and the env files of `folder`.

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
    withholds_invalid: bool = False,
    upstreams: Sequence[UpstreamPlan] = (),
    feature_options: Mapping[str, str] = MappingProxyType({}),
) -> HostPlan:
    """Return the plan of a core. The core uses the settings of the first folder.

    `withholds_invalid` withholds a folder with an invalid manifest until it is fixed. If the settings of the
    first folder cannot be read for that reason (`is_unsure`), all folders are withheld, because the settings
    may require a key.

    Raises: DeskUserError and ManifestError as in `effective_settings`. With `withholds_invalid`,
    ManifestError is raised only for a missing folder.
    """
    is_unsure = False
    try:
        resolved = effective_settings(flags, environ, folders[0] if folders else None)
    except ManifestError:
        manifest_settings = readable_settings(folders[0]) if withholds_invalid else None
        is_unsure = manifest_settings is None
        if not withholds_invalid:
            raise
        resolved = resolve(flags, environ, folders[0], manifest_settings)
    settings = resolved.settings
    server_names = [*(folder.name for folder in folders), *(upstream.name for upstream in upstreams)]
    capture = capture_path(settings.state_dir, server_names) if settings.capture else None
    return HostPlan(
        folders=tuple(folders),
        settings=settings,
        upstreams=tuple(upstreams),
        origins=dict(resolved.origins),
        http=http,
        may_move=may_move,
        capture=capture,
        sends_telemetry=True,
        mode=mode,
        withholds_invalid=withholds_invalid,
        feature_options=feature_options,
        is_unsure=is_unsure,
    )


def late_settings(plan: HostPlan, manifest: Manifest, is_first: bool = True) -> list[str]:
    """Return the settings of a fixed manifest that take effect only when the core starts again.

    These are the settings that the core could not read when it started, named like `settings.port`. The
    result is empty for folders other than the first, because their settings never take effect.
    """
    if not plan.is_unsure or not is_first:
        return []
    return sorted(
        f"settings.{name}"
        for name, value in manifest.settings.items()
        for setting_value in within_rights(GivenValue(BY_NAME[name], value, FILE))
        if plan.origins.get(name) == "default" and converted(setting_value) != getattr(plan.settings, name)
    )


def ignored_settings(folders: Sequence[Path]) -> list[str]:
    """Return warnings about ignored settings. Only the settings of the first folder take effect."""
    warnings = []
    for folder in folders:
        try:
            manifest = read_manifest(folder)
        except ManifestError:
            continue  # reported where the folder is hosted
        values = [GivenValue(BY_NAME[name], value, FILE) for name, value in manifest.settings.items()]
        values += env_file_settings(folder)
        allowed_values = (allowed for value in values for allowed in within_rights(value))
        if names := sorted({allowed.setting.name for allowed in allowed_values}):
            subject = f"{', '.join(names)} of {manifest.name}"
            warnings.append(f"{subject} are ignored: the core uses the settings of the first folder")
    return warnings


def separate_policies(plan: HostPlan) -> tuple[Settings, dict[str, Policy]]:
    """Split the settings of a plan. Return the settings without the approval policies that a folder set, and
    these policies.
    """
    settings = plan.settings
    if not is_from_folder(plan.origins.get("approvals", "")):
        return settings, {}
    return replace(settings, approvals=()), policies_of(settings.approvals)


def capture_path(state: Path, names: Sequence[str]) -> Path:
    """Return the path of a new capture, such as `captures/2026-11-20T09-30-00-profiles.jsonl`."""
    name = names[0] if names else "desk"
    return paths.captures_folder(state) / f"{time.strftime('%Y-%m-%dT%H-%M-%S')}-{name}.jsonl"


def rules_of(settings: Settings, key: str) -> Rules:
    """Return the rules for callers over HTTP. If `key` is not empty, callers must send it."""
    names = [name for name in Rules.__struct_fields__ if name != "api_key"]
    return Rules(api_key=key, **{name: getattr(settings, name) for name in names})
