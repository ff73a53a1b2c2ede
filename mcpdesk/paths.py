"""Paths of bundled files, state, configuration and sockets. This is the only module that uses `__file__`.

Bundled folders are next to the package in a checkout and inside it in a wheel. State and configuration are
where the platform expects them, unless `MCPDESK_STATE_DIR` or `MCPDESK_CONFIG_DIR` is set.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from mcpdesk.errors import DeskUserError
from mcpdesk.portable_files import is_own, is_shared
from mcpdesk.transports.rendezvous import folder_socket as folder_socket
from mcpdesk.transports.rendezvous import runtime_folder as tmp_runtime_folder

PACKAGE = Path(__file__).resolve().parent
BUNDLED = PACKAGE / "_bundled"


def package_themes() -> Path:
    """Return the folder of the bundled themes."""
    return _bundled("themes")


def sample_servers() -> Path:
    """Return the folder of the sample servers. Its folder `desk` is the default server."""
    return _bundled("sample_servers")


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of captures, the API key and histories. It may not exist yet."""
    if path_text := environ.get("MCPDESK_STATE_DIR"):
        return Path(path_text).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_state_path("mcpdesk", appauthor=False))


def captures_folder(state: Path) -> Path:
    """Return the folder of captures inside the state folder. It may not exist yet."""
    return state / "captures"


def config_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the user's own themes and preferences. It may not exist yet."""
    if path_text := environ.get("MCPDESK_CONFIG_DIR"):
        return Path(path_text).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_config_path("mcpdesk", appauthor=False))


def runtime_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the user's sockets: in `XDG_RUNTIME_DIR` if it is writable, or else a private
    folder below /tmp.
    """
    user_runtime_folder = environ.get("XDG_RUNTIME_DIR", "")
    if user_runtime_folder and os.path.isdir(user_runtime_folder) and os.access(user_runtime_folder, os.W_OK):
        return private_folder(Path(user_runtime_folder) / "mcpdesk")
    return private_folder(Path(tmp_runtime_folder()))


def private_folder(path: Path) -> Path:
    """Create `path` if needed, and make sure that only its owner, the current user, can enter it.

    Raises: DeskUserError if it cannot be created, or belongs to another user.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise DeskUserError(
            f"The folder {path} cannot be created: {error.strerror}.",
            "Make it writable, or set MCPDESK_STATE_DIR to a folder that is.",
        ) from error
    if not stat.S_ISDIR(status.st_mode) or not is_own(status):
        raise DeskUserError(f"{path} is not a folder of your user.", "Remove it, or choose another folder.")
    if is_shared(status):
        path.chmod(0o700)
    return path


def _bundled(name: str) -> Path:
    bundled_path = BUNDLED / name
    return bundled_path if bundled_path.is_dir() else PACKAGE.parent / name
