"""Duplicates: servers that several clients or files have, and the differences between their entries."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

from mcpdesk.client.configs.servers import ConfiguredServer
from mcpdesk.features.doctor.entry_secrets import Secrets
from mcpdesk.features.doctor.identities import identity_of
from mcpdesk.features.doctor.report import Duplicate, EntryDifference
from mcpdesk.recorder.masking import MASK

NONE = "(none)"
MAX_ARGUMENTS_LENGTH = 120
"""Maximum number of characters that are shown of the arguments of one entry."""
_Kind = Literal["version", "reported version", "arguments"]
_Text = TypeVar("_Text", str, tuple[str, ...])


class ComparedEntry(Struct, frozen=True):
    """Entry of a server in one file."""

    target: str
    file: str
    server: ConfiguredServer
    secrets: Secrets
    reported_version: str = ""
    """Version that the server reported, or "" if it is unknown."""


def duplicates(entries: Sequence[ComparedEntry]) -> list[Duplicate]:
    """Return the servers with entries in several files, with the differences between the entries.

    A file may have several entries of one server, such as one for each database. Such entries are compared
    with entries of the same name in other files.
    """
    groups = dict[str, list[ComparedEntry]]()
    for entry in entries:
        if identity := identity_of(entry.server):
            groups.setdefault(identity.name, []).append(entry)
    result = list[Duplicate]()
    for name, same_server in groups.items():
        compared_groups = dict[str, list[ComparedEntry]]()
        is_repeated = max(Counter(each.file for each in same_server).values()) > 1
        for each in same_server:
            compared_groups.setdefault(each.server.name if is_repeated else "", []).append(each)
        for compared in compared_groups.values():
            if len({each.file for each in compared}) > 1:
                masked_name = compared[0].secrets.masked(name)
                targets = [each.target for each in compared]
                result.append(Duplicate(masked_name, targets, list(_differences(compared))))
    return result


def _differences(entries: Sequence[ComparedEntry]) -> Iterator[EntryDifference]:
    """Yield the differences between entries of one server."""
    identities = [identity_of(each.server) for each in entries]
    versions = [each.version if each else "" for each in identities]
    arguments = [each.arguments if each else () for each in identities]
    reported_versions = [each.reported_version for each in entries]
    yield from _text_differences("version", entries, versions, _masked)
    if all(reported_versions):
        yield from _text_differences("reported version", entries, reported_versions, _masked)
    yield from _text_differences("arguments", entries, arguments, _command_text)
    yield from _pair_differences("variables", entries, lambda server: server.environment)
    yield from _pair_differences("headers", entries, lambda server: server.headers)


def _masked(text: str, secrets: Secrets) -> str:
    return secrets.masked(text, MAX_ARGUMENTS_LENGTH)


def _command_text(arguments: Sequence[str], secrets: Secrets) -> str:
    """Return the arguments as a command with secrets masked. Each is masked before it is quoted, because
    quoting may change a secret.
    """
    words = (secrets.masked(each, MAX_ARGUMENTS_LENGTH) for each in arguments)
    return secrets.masked(" ".join(map(_quoted, words)), MAX_ARGUMENTS_LENGTH)


def _quoted(word: str) -> str:
    """Return a word with shell quotes. A mask alone needs no quotes."""
    without_masks = word.replace(MASK, "mask")
    return word if shlex.quote(without_masks) == without_masks else shlex.quote(word)


def _text_differences(
    kind: _Kind,
    entries: Sequence[ComparedEntry],
    texts: Sequence[_Text],
    mask: Callable[[_Text, Secrets], str],
) -> Iterator[EntryDifference]:
    """Yield a difference if the texts of the entries are not equal. `mask` masks a text."""
    targets = dict[_Text, list[str]]()
    for entry, text in zip(entries, texts, strict=True):
        targets.setdefault(text, []).append(entry.target)
    if len(targets) == 1:
        return
    secrets = {text: entry.secrets for entry, text in zip(entries, texts, strict=True)}
    texts_with_targets = (
        f"{mask(text, secrets[text]) or NONE} in {', '.join(names)}" for text, names in targets.items()
    )
    yield EntryDifference(kind, "; ".join(texts_with_targets))


def _pair_differences(
    kind: Literal["variables", "headers"],
    entries: Sequence[ComparedEntry],
    pairs_of: Callable[[ConfiguredServer], Mapping[str, str]],
) -> Iterator[EntryDifference]:
    """Yield a difference for each name whose values differ. The values are not shown."""
    pairs = [pairs_of(each.server) for each in entries]
    for name in dict.fromkeys(name for each in pairs for name in each):
        targets = [entry.target for entry, each in zip(entries, pairs, strict=True) if name in each]
        masked_name = entries[0].secrets.masked(name, MAX_ARGUMENTS_LENGTH)
        if len(targets) < len(entries):
            yield EntryDifference(kind, f"{masked_name} is only in {', '.join(targets)}")
        elif len({each[name] for each in pairs}) > 1:
            yield EntryDifference(kind, f"{masked_name} has different values")
