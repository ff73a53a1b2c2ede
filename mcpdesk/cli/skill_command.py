"""The command `skill`: instructions for AI agents that use mcpdesk in a shell."""

from __future__ import annotations

from pathlib import Path

import click

from mcpdesk import private_files
from mcpdesk.cli.printing import print_text
from mcpdesk.errors import DeskUserError
from mcpdesk.paths import PACKAGE

SKILL = PACKAGE / "skills" / "mcpdesk" / "SKILL.md"
FOLDERS = {
    "claude-code": Path(".claude", "skills"),
    "codex": Path(".agents", "skills"),
    "cursor": Path(".cursor", "skills"),
}
"""Folder of skills in the home folder or in a project, by agent.

Sources, read on 2026-11-29: docs.claude.com (agent-sdk/skills), developers.openai.com/codex/skills.
"""
SKILL_EXAMPLES = """\b
Examples:
  mcpdesk skill
  mcpdesk skill --install claude-code
  mcpdesk skill --install codex --project
"""


@click.command(name="skill", epilog=SKILL_EXAMPLES, short_help="Teach an AI agent to use mcpdesk.")
@click.option("--install", "agent", type=click.Choice([*FOLDERS]), help="Write the skill for this agent.")
@click.option(
    "--project",
    "is_project",
    is_flag=True,
    help="With --install: write it for the current folder instead of your home folder.",
)
def skill_command(agent: str | None, is_project: bool) -> None:
    """Print a skill for AI agents that have a shell. It explains how to find out why an MCP server fails, and
    how to call, record, check and test servers.

    With --install, the skill is written to the folder in which the agent looks for skills. It replaces an
    older version of this skill. Run the command again after you update mcpdesk.
    """
    if agent is None:
        if is_project:
            raise click.UsageError("--project needs --install AGENT.")
        print_text(SKILL.read_text("utf-8"), exact=True)
        return
    path = (Path.cwd() if is_project else Path.home()) / FOLDERS[agent] / "mcpdesk" / "SKILL.md"
    print_text(f"{_write_skill(path)} {path}")


def _write_skill(path: Path) -> str:
    """Write the skill to a path. Return "written:", "updated:" or "unchanged:". Raises: DeskUserError."""
    content = SKILL.read_bytes()
    try:
        old_content = path.read_bytes() if path.is_file() else None
        if old_content == content:
            return "unchanged:"
        path.parent.mkdir(parents=True, exist_ok=True)
        private_files.write(path, content, mode=0o644)
    except OSError as error:
        raise DeskUserError(f"{path} cannot be written: {error.strerror}.") from None
    return "written:" if old_content is None else "updated:"
