"""Skills of an upstream server: the list is validated, and the files are compared with it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import skill_server
from tests.support.skill_server import FORM, MAIN, TEXT

pytestmark = pytest.mark.process

if TYPE_CHECKING:
    from tests.cli.conftest import Run

REFUSED = [
    ("outside", "skill://acme/refunds/%2e%2e/secret is not in its folder skill://acme/refunds"),
    ("elsewhere", "skill://acme/other/mail.md is not in its folder skill://acme/refunds"),
    ("twice", "it lists a file twice"),
    ("headless", "it does not list its own SKILL.md"),
    ("nameless", "the front matter needs a name, a text"),
    ("misnamed", "the front matter says name: rebates, but its folder is called refunds"),
    ("huge", "its files have 17825882 bytes together; the limit is 16777216"),
    ("many", "it has 513 files; the limit is 512"),
    ("uppercase", f"the digest of {FORM} is not sha256: and 64 small hexadecimal digits"),
    ("sizeless", f"the size of {FORM} is not a number of bytes"),
    ("bare", "its resources are neither a list nor 'dynamic'"),
]
"""Habits of a server whose list is unreliable, and the message about each."""


def command(habit: str) -> list[str]:
    return ["--", sys.executable, skill_server.PROGRAM, habit]


def test_skills_are_listed_and_what_is_read_of_them_is_verified(mcpdesk: Run) -> None:
    listed = mcpdesk("list", "--json", *command(""))
    assert [each["uri"] for each in json.loads(listed.stdout)["skills"]] == [MAIN]
    assert "resources/read" not in listed.stderr
    told = mcpdesk("list", *command("")).stdout
    assert told == f"skills\n  {MAIN}  Pay back.\n"
    read = mcpdesk("read", MAIN, *command(""))
    assert (read.returncode, read.stdout) == (0, TEXT)
    assert mcpdesk("read", FORM, *command("")).stdout == "Dear customer"


@pytest.mark.parametrize(
    ("habit", "uri", "reason"),
    [
        ("digest", FORM, "its digest is sha256:"),
        ("digest", MAIN, "its digest is sha256:"),
        ("size", FORM, "it has 22 bytes and not 13"),
        ("frontmatter", MAIN, "says description: 'Pay back.', and its entry description: 'Keep the money.'"),
        ("", "skill://acme/refunds/more.md", "the skill skill://acme/refunds does not list it"),
    ],
)
def test_what_is_not_as_it_was_listed_is_not_printed(mcpdesk: Run, habit: str, uri: str, reason: str) -> None:
    read = mcpdesk("read", uri, *command(habit))
    assert (read.returncode, read.stdout) == (4, "")
    assert f"{uri} does not match its skill: " in read.stderr
    assert reason in read.stderr
    failed = json.loads(mcpdesk("read", uri, "--json", *command(habit)).stdout)
    assert reason in failed["error"]["message"]


@pytest.mark.parametrize(("habit", "reason"), REFUSED)
def test_an_entry_that_cannot_be_relied_on_is_told_and_left_out(
    mcpdesk: Run, habit: str, reason: str
) -> None:
    listed = mcpdesk("list", *command(habit))
    assert (listed.returncode, listed.stdout) == (0, "nothing\n")
    assert f"mcpdesk: malformed: skills 0 ('{MAIN}'): {reason}" in listed.stderr
    read = mcpdesk("read", MAIN, *command(habit))
    assert (read.returncode, read.stdout) == (4, "")
    assert f"skills/get: {reason}" in read.stderr


def test_the_entry_of_another_skill_is_refused(mcpdesk: Run) -> None:
    read = mcpdesk("read", MAIN, *command("other"))
    assert (read.returncode, read.stdout) == (4, "")
    assert "skills/get: the entry is for skill://acorn/refunds/SKILL.md" in read.stderr


@pytest.mark.parametrize("habit", ["stale", "partial", "dynamic", "silent"])
def test_a_skill_is_read_by_what_its_server_says_of_it_now(mcpdesk: Run, habit: str) -> None:
    """Be its entry outdated, listed nowhere, or without digests; or the server one without the extension."""
    read = mcpdesk("read", MAIN, *command(habit))
    assert (read.returncode, read.stdout) == (0, TEXT)
    asked = [line for line in read.stderr.splitlines() if line.startswith("skills/")]
    wanted = {"stale": ["skills/list", "skills/get"], "partial": ["skills/list", "skills/get"]}
    assert asked == wanted.get(habit, [] if habit == "silent" else ["skills/list"])
