"""InvokeSkill: instructions in `skills/<name>/SKILL.md`, with the caller's arguments filled in."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from mcpdesk.errors import HandlerError
from mcpdesk.protocol import content
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.authoring import tool
from mcpdesk.server.offer.tool import ToolResult
from mcpdesk.server.state.server_state import ServerState

SKILL = "SKILL.md"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
PLACEHOLDER = re.compile(r"\$(ARGUMENTS\b|[1-9]\d*)")
SKILL_BYTES = 1 << 20
"""Maximum size of SKILL.md in bytes."""
ARGUMENTS_LIMIT = 100_000
"""Maximum characters of arguments."""
MAX_FILES = 512
"""Maximum number of files besides SKILL.md. The skills extension allows 512 files including SKILL.md."""


class SkillFile(Struct, frozen=True):
    """File of a skill."""

    uri: str
    path: str
    size: int


class Skill(Struct, frozen=True):
    """Instructions and files of a skill.

    Attributes:
        instructions: Text of its SKILL.md with the arguments filled in
        folder: Path of its folder
        files: Other files in its folder, readable as resources
    """

    name: str
    instructions: str
    folder: str
    files: tuple[SkillFile, ...]


@tool(
    name="InvokeSkill",
    title="Invoke a skill",
    read_only=True,
    destructive=False,
    idempotent=True,
    open_world=False,
)
async def invoke_skill(skill_name: str, ctx: Context, arguments: str = "") -> ToolResult[Skill]:
    """Invoke a skill by name for reusable workflows. Returns its instructions, to be followed from then on,
    and its files. The error for an unknown name lists the available names.

    Args:
        skill_name: The skill name to invoke
        arguments: Arguments to pass to the skill
    """
    if len(arguments) > ARGUMENTS_LIMIT:
        raise HandlerError(f"arguments: has {len(arguments)} characters; {ARGUMENTS_LIMIT} are allowed")
    skill = await asyncio.to_thread(_read, skill_name, arguments, ctx.hosted)
    return ToolResult((content.text(_text(skill)),), skill)


def uri_of(skill: str, path: str) -> str:
    """Return the URI of a skill's file; `path` is its path in the skill's folder."""
    return f"skill://{skill}/{quote(path)}"


def filled(text: str, arguments: str) -> str:
    """Replace `$ARGUMENTS` by the arguments, `$1` by their first word, and so on. If the text has no
    placeholder, append the arguments.
    """
    words = _words(arguments)

    def value(match: re.Match[str]) -> str:
        if match[1] == "ARGUMENTS":
            return arguments
        number = int(match[1][:6])
        return words[number - 1] if number <= len(words) else ""

    result, replaced_count = PLACEHOLDER.subn(value, text)
    return result if replaced_count or not arguments else f"{result.rstrip()}\n\nARGUMENTS: {arguments}"


def files_of(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield SKILL.md, then the other files of a skill. Hidden files and links to the outside are skipped."""
    yield from _existing_files([folder / SKILL])
    yield from islice(_existing_files(_supporting_files(folder)), MAX_FILES)


def _supporting_files(folder: Path) -> Iterator[Path]:
    root = folder.resolve()
    for directory, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if each[0] != ".")
        for path in (Path(directory, each) for each in sorted(files) if each[0] != "."):
            if path != folder / SKILL and _is_inside(path, root):
                yield path


def _existing_files(paths: Iterable[Path]) -> Iterator[tuple[Path, os.stat_result]]:
    for path in paths:
        try:
            status = path.stat()
        except OSError:  # the file was removed, because editors replace files while saving
            continue
        if stat.S_ISREG(status.st_mode):
            yield path, status


def _is_inside(path: Path, root: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(root)  # Path.resolve raises for circular links


def _read(name: str, arguments: str, state: ServerState) -> Skill:
    folder = _skill_folder(name, state)
    files = (
        SkillFile(uri_of(name, relative), relative, status.st_size)
        for path, status in files_of(folder)
        if (relative := path.relative_to(folder).as_posix()) != SKILL
    )
    return Skill(name, filled(_instructions(folder), arguments), str(folder), tuple(files))


def _words(arguments: str) -> list[str]:
    """Split arguments like a shell, or at whitespace if quotes are not closed."""
    import shlex

    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()


def _skill_folder(name: str, state: ServerState) -> Path:
    if problem := state.broken_skills.get(name):
        raise HandlerError(f"skill_name: the skill {name} cannot be used until it is fixed: {problem}")
    folders = {folder.name: folder for base in reversed(state.skills) for folder in skills_below(base)}
    if NAME.fullmatch(name) and name in folders:
        return folders[name]
    names = ", ".join(sorted(folders)) or f"none; create {state.folder}/skills/NAME/{SKILL}"
    raise HandlerError(f"skill_name: no skill {name[:80]!r}. Available: {names}")


def skills_below(base: Path) -> Iterator[Path]:
    """Yield the folders of skills in a folder. A link to the outside is not a skill."""
    for folder in sorted(base.iterdir()) if base.is_dir() else ():
        is_inside = _is_inside(folder / SKILL, base.resolve())
        if is_inside and (folder / SKILL).is_file() and NAME.fullmatch(folder.name):
            yield folder


def _instructions(folder: Path) -> str:
    """Return the text of SKILL.md after its front matter."""
    path = folder / SKILL
    try:
        with path.open("rb") as file:
            data = file.read(SKILL_BYTES + 1)
    except OSError as error:
        raise HandlerError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > SKILL_BYTES:
        raise HandlerError(f"{path} has more than {SKILL_BYTES} bytes, which is the limit")
    text = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    front_matter, end_marker, body = text.removeprefix("---").partition("\n---")
    return (
        body.partition("\n")[2].lstrip("\n")
        if text.startswith("---\n") and end_marker and front_matter
        else text
    )


def _text(skill: Skill) -> str:
    if not skill.files:
        return skill.instructions
    lines = [f"- {file.path} ({file.size} bytes): {file.uri}" for file in skill.files]
    return "\n".join([skill.instructions.rstrip(), "", f"Files of this skill, in {skill.folder}:", *lines])
