"""Duplicate servers across files, and the differences between their entries."""

from __future__ import annotations

import pytest

from mcpdesk.client.configs.servers import ConfiguredServer
from mcpdesk.features.doctor.comparison import ComparedEntry, duplicates
from mcpdesk.features.doctor.entry_secrets import secrets_of


def entry(target: str, *argv: str, version: str = "", **environment: str) -> ComparedEntry:
    """Entry of a server. The text before the colon is its file."""
    file, _, name = target.partition(":")
    server = ConfiguredServer(name, argv, environment=environment)
    return ComparedEntry(target, file, server, secrets_of(server), version)


def test_equal_entries_are_duplicates_without_differences() -> None:
    [found] = duplicates(
        [
            entry("cursor:git", "npx", "-y", "@x/git"),
            entry("claude:notes", "npx", "notes"),
            entry("claude:g", "bunx", "@x/git"),
        ]
    )
    assert (found.server, found.targets, found.differences) == ("@x/git", ["cursor:git", "claude:g"], [])


def test_differences_are_version_arguments_and_variables() -> None:
    [found] = duplicates(
        [
            entry("cursor:git", "npx", "@x/git@1.0", "--root", "a", TOKEN="one-token", LEVEL="debug"),
            entry("claude:git", "npx", "@x/git@1.2", "--token", "hidden-word", TOKEN="other-token"),
            entry("codex:git", "npx", "@x/git@1.2", "--root", "a", TOKEN="one-token", LEVEL="debug"),
        ]
    )
    assert {each.kind: each.message for each in found.differences if each.kind != "variables"} == {
        "version": "1.0 in cursor:git; 1.2 in claude:git, codex:git",
        "arguments": "--root a in cursor:git, codex:git; --token •••• in claude:git",
    }
    assert [each.message for each in found.differences if each.kind == "variables"] == [
        "TOKEN has different values",
        "LEVEL is only in cursor:git, codex:git",
    ]
    assert "token" not in str([each.message for each in found.differences]).replace("--token", "")


@pytest.mark.parametrize(
    "secret", ["it's-a-word", 'say "big secret"', "a$b;c-word", "back\\slash-word", "t i p s"]
)
def test_a_secret_that_is_quoted_in_a_command_is_masked(secret: str) -> None:
    [found] = duplicates(
        [
            entry("cursor:git", "npx", "@x/git", "--token", secret, "--name", "two words"),
            entry("claude:git", "npx", "@x/git"),
        ]
    )
    [difference] = found.differences
    assert difference.message == "--token •••• --name 'two words' in cursor:git; (none) in claude:git"


def test_reported_versions_count_if_all_entries_answered() -> None:
    entries = [
        entry("cursor:git", "uvx", "git", version="1.0"),
        entry("claude:git", "uvx", "git", version="2.0"),
    ]
    [found] = duplicates(entries)
    assert [(each.kind, each.message) for each in found.differences] == [
        ("reported version", "1.0 in cursor:git; 2.0 in claude:git")
    ]
    [found] = duplicates([entries[0], entry("claude:git", "uvx", "git")])
    assert found.differences == []


def test_several_entries_of_one_file_are_compared_by_name() -> None:
    entries = [
        entry("cursor:orders", "npx", "postgres", "orders"),
        entry("cursor:users", "npx", "postgres", "users"),
        entry("claude:users", "npx", "postgres", "users2"),
    ]
    assert duplicates(entries[:2]) == []
    [found] = duplicates(entries)
    assert found.targets == ["cursor:users", "claude:users"]
    assert [each.kind for each in found.differences] == ["arguments"]
