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
_Compared = TypeVar("_Compared", str, tuple[str, ...])


class ComparedEntry(Struct, frozen=True):
    """Entry of a server in one file."""

    target: str
    file: str
    server: ConfiguredServer
    secrets: Secrets
    reported_version: str = ""
    """Version that the server reported. Empty if it is unknown."""


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
    for name, members in groups.items():
        by_name = dict[str, list[ComparedEntry]]()
        is_repeated = max(Counter(each.file for each in members).values()) > 1
        for each in members:
            by_name.setdefault(each.server.name if is_repeated else "", []).append(each)
        for group in by_name.values():
            if len({each.file for each in group}) > 1:
                masked_name, targets = group[0].secrets.masked(name), [each.target for each in group]
                result.append(Duplicate(masked_name, targets, list(_differences(group))))
    return result


def _differences(entries: Sequence[ComparedEntry]) -> Iterator[EntryDifference]:
    identities = [identity_of(each.server) for each in entries]
    versions = [each.version if each else "" for each in identities]
    arguments = [each.arguments if each else () for each in identities]
    reported = [each.reported_version for each in entries]
    yield from _of_texts("version", entries, versions, _masked)
    if all(reported):
        yield from _of_texts("reported version", entries, reported, _masked)
    yield from _of_texts("arguments", entries, arguments, _command_text)
    yield from _of_pairs("variables", entries, lambda server: server.environment)
    yield from _of_pairs("headers", entries, lambda server: server.headers)


def _masked(text: str, secrets: Secrets) -> str:
    return secrets.masked(text, MAX_ARGUMENTS_LENGTH)


def _command_text(arguments: Sequence[str], secrets: Secrets) -> str:
    """Return the arguments as a command with secrets masked. Each is masked before it is quoted, because
    quoting may change a secret.
    """
    words = (secrets.masked(each, MAX_ARGUMENTS_LENGTH) for each in arguments)
    return secrets.masked(" ".join(map(_quoted, words)), MAX_ARGUMENTS_LENGTH)


def _quoted(word: str) -> str:
    plain = word.replace(MASK, "mask")
    return word if shlex.quote(plain) == plain else shlex.quote(word)


def _of_texts(
    kind: _Kind,
    entries: Sequence[ComparedEntry],
    texts: Sequence[_Compared],
    mask: Callable[[_Compared, Secrets], str],
) -> Iterator[EntryDifference]:
    """Yield a difference if the texts of the entries are not equal. `mask` masks a text."""
    targets = dict[_Compared, list[str]]()
    for entry, text in zip(entries, texts, strict=True):
        targets.setdefault(text, []).append(entry.target)
    if len(targets) == 1:
        return
    secrets = {text: entry.secrets for entry, text in zip(entries, texts, strict=True)}
    texts_with_targets = (
        f"{mask(text, secrets[text]) or NONE} in {', '.join(named)}" for text, named in targets.items()
    )
    yield EntryDifference(kind, "; ".join(texts_with_targets))


def _of_pairs(
    kind: Literal["variables", "headers"],
    entries: Sequence[ComparedEntry],
    pairs_of: Callable[[ConfiguredServer], Mapping[str, str]],
) -> Iterator[EntryDifference]:
    """Yield a difference for each name whose values differ. The values are not shown."""
    pairs = [pairs_of(each.server) for each in entries]
    for name in dict.fromkeys(name for each in pairs for name in each):
        having = [entry.target for entry, each in zip(entries, pairs, strict=True) if name in each]
        masked_name = entries[0].secrets.masked(name, MAX_ARGUMENTS_LENGTH)
        if len(having) < len(entries):
            yield EntryDifference(kind, f"{masked_name} is only in {', '.join(having)}")
        elif len({each[name] for each in pairs}) > 1:
            yield EntryDifference(kind, f"{masked_name} has different values")
