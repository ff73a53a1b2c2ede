"""The Dockerfile of docs/deploy: its instructions, and the stages that they make."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PATH = Path(__file__).parents[2] / "docs" / "deploy" / "Dockerfile"
_CONTINUED = re.compile(r"[ \t]*\\\n[ \t]*")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, such as `RUN` or `ENV`, and the rest of its line."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Stage:
    """Instructions from one `FROM` to the next one."""

    instructions: tuple[Instruction, ...]

    def values(self, name: str) -> list[str]:
        """Values of all instructions of a name."""
        return [each.value for each in self.instructions if each.name == name]

    def last(self, name: str) -> str:
        """Value of the last instruction of a name, which is the one that counts."""
        return self.values(name)[-1]

    @property
    def environment(self) -> dict[str, str]:
        """Variables of `ENV`, in the form NAME=VALUE."""
        return dict(each.split("=", 1) for each in self.values("ENV"))


def stages(path: Path = PATH) -> list[Stage]:
    """Stages of a Dockerfile, in their order."""
    text = re.sub(r"(?m)^\s*#.*\n", "", path.read_text())
    lines = [line.split(None, 1) for line in _CONTINUED.sub(" ", text).splitlines() if line.strip()]
    instructions: list[list[Instruction]] = []
    for name, value in lines:
        if name == "FROM":
            instructions.append([])
        instructions[-1].append(Instruction(name, value.strip()))
    return [Stage(tuple(each)) for each in instructions]


BUILD, IMAGE = stages()
