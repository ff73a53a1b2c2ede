"""Identity of a configured server: the package, image, program or URL that an entry names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import NamedTuple
from urllib.parse import urlsplit

from mcpdesk.client.configs.own_program import own_arguments
from mcpdesk.client.configs.servers import ConfiguredServer

_NODE_RUNNERS = {
    "npx": (),
    "bunx": (),
    "pnpx": (),
    "npm": ("exec",),
    "pnpm": ("dlx",),
    "yarn": ("dlx",),
    "bun": ("x",),
}
"""Programs that run a Node.js package, with their subcommand."""
_PYTHON_RUNNERS = {"uvx": (), "uv": ("tool", "run"), "pipx": ("run",)}
"""Programs that run a Python package, with their subcommand."""
_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
_INTERPRETERS = frozenset({"node", "python", "python3", "deno", "bun", "uv", "ruby", "java", "sh", "bash"})
_PACKAGE_OPTIONS = frozenset({"-p", "--package", "--from", "--spec"})
"""Options whose value is the package that contains the program."""
_VALUE_OPTIONS = frozenset(
    {
        "-c", "--call", "--with", "--python", "--index", "--index-url", "--directory", "--project",
        "--registry", "--cache", "--pip-args",
    }
)  # fmt: skip
"""Other options of package runners with a value."""
_RUN_OPTIONS = frozenset(
    {
        "-e", "--env", "--env-file", "-v", "--volume", "--mount", "--name", "--network", "--net", "-p",
        "--publish", "-w", "--workdir", "-u", "--user", "--entrypoint", "--platform", "--pull", "--memory",
        "-m", "--cpus", "--add-host", "-l", "--label", "--gpus", "--hostname", "-h", "--dns", "--runtime",
        "--security-opt", "--cap-add", "--cap-drop", "--device", "--shm-size", "--tmpfs", "--ulimit",
    }
)  # fmt: skip
"""Options of `docker run` with a value."""
_PYTHON_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(?:\[[^\]]*\])?\s*(?:(?:===?|~=|>=|<=|>|<|@)\s*(?P<version>.+))?"
)
"""Requirement of a Python package, with its version."""


class Identity(NamedTuple):
    """Server that an entry names. Entries whose identities have the same name are about the same server."""

    name: str
    """Package, image, program, or host and path of a URL."""
    version: str = ""
    """Version, tag or digest in the entry, or "" if the entry names none."""
    arguments: tuple[str, ...] = ()
    """Arguments of the server. They may contain secrets."""


def identity_of(server: ConfiguredServer) -> Identity | None:
    """Return the identity of an entry, or None if the entry is invalid."""
    if server.url:
        return _url_identity(server.url)
    return _command_identity(list(without_tap(server.argv))) if server.argv else None


def without_tap(argv: Sequence[str]) -> Sequence[str]:
    """Return COMMAND of `mcpdesk stdio -- COMMAND`. Any other command is returned unchanged."""
    own = own_arguments(argv[0], list(argv[1:]))
    if own is None:
        return argv
    arguments = argv[1 + len(own) :]
    is_tap = arguments[:1] == ("stdio",) and "--" in arguments[:-1]
    return arguments[arguments.index("--") + 1 :] if is_tap else argv


def _url_identity(url: str) -> Identity | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    host = parts.netloc.rpartition("@")[2].lower()
    return Identity(f"{host}{parts.path.rstrip('/')}")


def _command_identity(words: list[str]) -> Identity:
    program = re.sub(r"\.(exe|cmd|bat)$", "", PurePath(words[0].replace("\\", "/")).name.lower())
    arguments = words[1:]
    if program == "cmd" and arguments[:1] in (["/c"], ["/C"]) and len(arguments) > 1:
        return _command_identity(arguments[1:])
    if program in _CONTAINERS and arguments[:1] == ["run"]:
        return _image_identity(arguments[1:]) or Identity(program, "", tuple(arguments))
    for runners, split_package in ((_NODE_RUNNERS, _node_package), (_PYTHON_RUNNERS, _python_package)):
        subcommand = runners.get(program)
        if subcommand is not None and tuple(arguments[: len(subcommand)]) == subcommand:
            identity = _package_identity(arguments[len(subcommand) :], split_package)
            return identity or Identity(program, "", tuple(arguments))
    if re.sub(r"[\d.]+$", "", program) in _INTERPRETERS or program in _INTERPRETERS:
        return _script_identity(arguments) or Identity(program, "", tuple(arguments))
    return Identity(program, "", tuple(arguments))


def _node_package(text: str) -> tuple[str, str]:
    """Split `NAME@VERSION` into name and version. The version may be missing."""
    separator = text.rfind("@")
    return (text[:separator], text[separator + 1 :]) if separator > 0 else (text, "")


def _python_package(text: str) -> tuple[str, str]:
    """Split a requirement such as `NAME==VERSION` into name and version. The version may be missing."""
    match = _PYTHON_REQUIREMENT.fullmatch(text)
    if match is None:
        return text, ""
    return match["name"].lower().replace("_", "-"), match["version"] or ""


def _package_identity(words: list[str], split_package: Callable[[str], tuple[str, str]]) -> Identity | None:
    """Return the identity for the words after a package runner, or None if they name no package."""
    package = ""
    while words and (words[0].startswith("-") or words[0] == "run"):
        word = words.pop(0)
        option, equals, value = word.partition("=")
        if option in _PACKAGE_OPTIONS:
            package = package or (value if equals else words.pop(0) if words else "")
        elif option in _VALUE_OPTIONS and not equals and words:
            words.pop(0)
        elif word == "--":
            break
    if not package and not words:
        return None
    program = "" if not words else words.pop(0)
    name, version = split_package(package or program)
    return Identity(name, version, tuple(words))


def _image_identity(words: list[str]) -> Identity | None:
    """Return the identity for the words after `docker run`, or None if they name no image."""
    while words and words[0].startswith("-"):
        option, equals, _ = words.pop(0).partition("=")
        if option in _RUN_OPTIONS and not equals and words:
            words.pop(0)
    if not words:
        return None
    image, separator, digest = words[0].partition("@")
    name, colon, tag = image.rpartition(":")
    if not colon or "/" in tag:  # a port, as in localhost:5000/image
        name, tag = image, ""
    return Identity(name, digest if separator else tag, tuple(words[1:]))


def _script_identity(words: list[str]) -> Identity | None:
    """Return the identity for the words after an interpreter, or None if they name no script or module."""
    arguments = list(words)
    while arguments and (arguments[0].startswith("-") or arguments[0] == "run"):
        word = arguments.pop(0)
        if word == "-c":
            return None
        if word in ("-m", "-jar") and arguments:
            return Identity(arguments[0], "", tuple(arguments[1:]))
        if word in _VALUE_OPTIONS and arguments:
            arguments.pop(0)
    return Identity(arguments[0], "", tuple(arguments[1:])) if arguments else None
