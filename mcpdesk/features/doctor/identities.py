"""Identity of a configured server: the package, image, program or URL that an entry names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import NamedTuple
from urllib.parse import urlsplit

from mcpdesk.client.configs.own_program import own_arguments
from mcpdesk.client.configs.servers import ConfiguredServer

_NODE = {
    "npx": (),
    "bunx": (),
    "pnpx": (),
    "npm": ("exec",),
    "pnpm": ("dlx",),
    "yarn": ("dlx",),
    "bun": ("x",),
}
_PYTHON = {"uvx": (), "uv": ("tool", "run"), "pipx": ("run",)}
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
_RUN_OPTIONS = frozenset(
    {
        "-e", "--env", "--env-file", "-v", "--volume", "--mount", "--name", "--network", "--net", "-p",
        "--publish", "-w", "--workdir", "-u", "--user", "--entrypoint", "--platform", "--pull", "--memory",
        "-m", "--cpus", "--add-host", "-l", "--label", "--gpus", "--hostname", "-h", "--dns", "--runtime",
        "--security-opt", "--cap-add", "--cap-drop", "--device", "--shm-size", "--tmpfs", "--ulimit",
    }
)  # fmt: skip
"""Options of `docker run` with a value."""
_VERSION = re.compile(r"(?P<name>[\w.-]+)(?:\[[^\]]*\])?\s*(?:(?:===?|~=|>=|<=|>|<|@)\s*(?P<version>.+))?")
"""Requirement of a Python package, with its version."""


class Identity(NamedTuple):
    """The server that an entry names. Two entries with equal names are about the same server."""

    name: str
    """Package, image, program, or host and path of a URL."""
    version: str = ""
    """Version or tag in the entry. Empty if the entry names none."""
    arguments: tuple[str, ...] = ()
    """Arguments of the server. They may contain secrets."""


def identity_of(server: ConfiguredServer) -> Identity | None:
    """Return the identity of an entry, or None if the entry is invalid."""
    if server.url:
        return _of_url(server.url)
    return _of_command(list(without_tap(server.argv))) if server.argv else None


def without_tap(argv: Sequence[str]) -> Sequence[str]:
    """Return the command behind `mcpdesk stdio -- COMMAND`. Any other command is returned unchanged."""
    own = own_arguments(argv[0], list(argv[1:]))
    arguments = None if own is None else argv[1 + len(own) :]
    is_tap = arguments is not None and arguments[:1] == ("stdio",) and "--" in arguments[:-1]
    return arguments[arguments.index("--") + 1 :] if arguments is not None and is_tap else argv


def _of_url(url: str) -> Identity | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    host = parts.netloc.rpartition("@")[2].lower()
    return Identity(f"{host}{parts.path.rstrip('/')}")


def _of_command(words: list[str]) -> Identity:
    program = re.sub(r"\.(exe|cmd|bat)$", "", PurePath(words[0].replace("\\", "/")).name.lower())
    arguments = words[1:]
    if program == "cmd" and arguments[:1] in (["/c"], ["/C"]) and len(arguments) > 1:
        return _of_command(arguments[1:])
    if program in _CONTAINERS and arguments[:1] == ["run"]:
        return _of_image(arguments[1:]) or Identity(program, "", tuple(arguments))
    for runners, split_package in ((_NODE, _node_package), (_PYTHON, _python_package)):
        verbs = runners.get(program)
        if verbs is not None and tuple(arguments[: len(verbs)]) == verbs:
            package = _of_package(arguments[len(verbs) :], split_package)
            return package or Identity(program, "", tuple(arguments))
    if re.sub(r"[\d.]+$", "", program) in _INTERPRETERS or program in _INTERPRETERS:
        return _of_script(arguments) or Identity(program, "", tuple(arguments))
    return Identity(program, "", tuple(arguments))


def _node_package(text: str) -> tuple[str, str]:
    separator = text.rfind("@")
    return (text[:separator], text[separator + 1 :]) if separator > 0 else (text, "")


def _python_package(text: str) -> tuple[str, str]:
    match = _VERSION.fullmatch(text)
    if match is None:
        return text, ""
    return match["name"].lower().replace("_", "-"), match["version"] or ""


def _of_package(words: list[str], split_package: Callable[[str], tuple[str, str]]) -> Identity | None:
    """Return the identity for the words after a package runner."""
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


def _of_image(words: list[str]) -> Identity | None:
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


def _of_script(words: list[str]) -> Identity | None:
    """Return the identity for the words after an interpreter: its script or module."""
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
