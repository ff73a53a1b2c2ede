"""API key of a desk. It is created once and stored in a file that only its owner can read."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from mcpdesk import private_files
from mcpdesk.portable_files import is_own, is_shared

FILE_NAME = "api-key"
KEY_BYTES = 24

log = logging.getLogger(__name__)


def is_required(*, runs_programs: bool, over_tcp: bool, no_auth: bool, configured: bool) -> bool:
    """Return True if callers must send the key.

    The key is required if a key is configured, or if a tool can run programs and the server listens on TCP.
    With `no_auth`, the key is never required.
    """
    return not no_auth and (configured or (runs_programs and over_tcp))


def load_or_create(state: Path, file_name: str = FILE_NAME) -> str:
    """Return the key stored in the state folder. If no key is stored, create and store a new key.

    If the folder cannot be written, the new key is valid only while the process runs.
    """
    import secrets

    path = state / file_name
    stored_key = _read(path)
    if stored_key:
        return stored_key
    key = secrets.token_urlsafe(KEY_BYTES)
    try:
        return _store(path, key)
    except OSError as error:
        log.warning(
            "the key cannot be stored, so each start creates a new one: %s (%s)", error.strerror, path
        )
        return key


def _read(path: Path) -> str:
    """Return the stored key, or "" if it does not exist, or if other users could have read it."""
    try:
        with path.open(encoding="ascii") as file:
            status = os.fstat(file.fileno())
            if not is_own(status) or is_shared(status):
                log.warning("%s could be read by other users: a new key is created", path)
                return ""
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _store(path: Path, key: str) -> str:
    """Write the key and return it. If another process has stored a key first, return that key."""
    data = f"{key}\n".encode()
    try:
        private_files.write(path, data, replaces=False)
    except FileExistsError:
        if stored_key := _read(path):
            return stored_key
        private_files.write(path, data)
    return key
