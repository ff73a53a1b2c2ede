"""`mcpdesk check --eras`: the answers of a server in each protocol revision, and their differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, to_builtins

from mcpdesk.cli.printing import CANNOT_CONNECT, OK, TIMED_OUT, aligned, exit_code, print_json, print_text
from mcpdesk.cli.reach import folder_program, server_to_reach
from mcpdesk.client.targets import FolderTarget, Target
from mcpdesk.connect import blocking, connect
from mcpdesk.errors import CallError
from mcpdesk.plain_text import clean
from mcpdesk.protocol.revisions import REVISIONS
from mcpdesk.upstream.offers import read_offers
from mcpdesk.upstream.target_transport import ProgramEvents, Reach
from mcpdesk.version import __version__

if TYPE_CHECKING:
    from mcpdesk.client.connection import ServerConnection
    from mcpdesk.upstream.offers import Offer

CLIENT_INFO = {"name": "mcpdesk", "version": __version__}
KINDS = ("tool", "resource", "template", "prompt", "skill")
MAX_NAME_LENGTH = 200
"""Maximum number of characters that are printed of a name."""
MAX_NAMED_ITEMS = 5
"""Maximum number of items that one difference names."""


class RevisionAnswer(Struct, frozen=True):
    """Answer of a server to a client that offers only one revision."""

    revision: str
    """Revision that the client offers."""
    answered_revision: str = field(default="", name="answered")
    """Revision in the server's answer. Empty if no connection was established."""
    problem: str = ""
    """Reason why no connection was established, or ""."""
    capabilities: tuple[str, ...] = ()
    items: Mapping[str, int] = {}
    """Number of items by kind."""
    remarks: tuple[str, ...] = ()
    """Faults of the lists."""
    differences: tuple[str, ...] = ()
    """Differences from the newest revision that works."""


class _RevisionResult(Struct, frozen=True):
    """An answer, and the items of its lists."""

    answer: RevisionAnswer
    offers: tuple[Offer, ...] = ()
    error_code: int = OK
    """Exit code for the problem."""


def print_eras(target: str, reach: Reach, timeout_s: float, as_json: bool) -> int:
    """Connect once for each revision, and print the answers. Return the exit code. An open connection is not
    used, because its revision cannot change.

    Raises: DeskUserError for an invalid target.
    """
    server, reach = server_to_reach(target, reach)
    if isinstance(server, FolderTarget):
        server = folder_program(server.path, target, reach.mode)
        reach = reach._replace(mode="")
    results = [_connect_and_read(server, reach, each.name, timeout_s) for each in REVISIONS]
    answers = with_differences(results)
    if as_json:
        print_json({"revisions": to_builtins(answers)})
    else:
        print_text("\n".join(_lines(answers)))
    if any(each.answered_revision for each in answers):
        return OK
    return max((each.error_code for each in results), default=CANNOT_CONNECT)


def _connect_and_read(target: Target, reach: Reach, revision: str, limit_s: float) -> _RevisionResult:
    """Connect with one revision, and read the lists. An error is part of the result."""
    reach = reach._replace(revision=revision)
    no_output = ProgramEvents(lambda line: None, lambda line: None)
    opening = connect(target, CLIENT_INFO, reach=reach, limit_s=limit_s, on_log=no_output)
    try:
        with blocking(opening) as connection:
            return connection.run(_read_lists(connection.server, revision), limit_s)
    except CallError as error:
        reason = clean(str(error), newlines=False)
        return _RevisionResult(RevisionAnswer(revision, problem=reason), error_code=exit_code(error))
    except TimeoutError:
        reason = f"its lists took more than {limit_s:g} s"
        return _RevisionResult(RevisionAnswer(revision, problem=reason), error_code=TIMED_OUT)


async def _read_lists(server: ServerConnection, revision: str) -> _RevisionResult:
    """Return the handshake and the lists of a server as a result. Raises: CallError."""
    handshake = await server.discover_server()
    offers, problems = await read_offers(server, handshake.capabilities, asks_all=True)
    counts = Counter(each.kind for each in offers)
    answer = RevisionAnswer(
        revision,
        handshake.revision.name,
        capabilities=tuple(sorted(map(_plain, handshake.capabilities))),
        items={kind: counts[kind] for kind in KINDS if counts[kind]},
        remarks=tuple(clean(each, newlines=False) for each in problems),
    )
    return _RevisionResult(answer, offers)


def with_differences(results: Sequence[_RevisionResult]) -> list[RevisionAnswer]:
    """Return the answers, newest revision first, with their differences from the newest one that works."""
    from msgspec.structs import replace

    newest_first = sorted(results, key=lambda each: each.answer.revision, reverse=True)
    working = [each for each in newest_first if each.answer.answered_revision]
    if not working:
        return [each.answer for each in newest_first]
    newest = working[0]
    return [
        replace(each.answer, differences=tuple(_differences(newest, each)))
        if each is not newest and each.answer.answered_revision
        else each.answer
        for each in newest_first
    ]


def _differences(newest: _RevisionResult, other: _RevisionResult) -> Iterator[str]:
    """Yield each difference of `other` from `newest`, as a phrase such as `without the tool add`."""
    newest_names, other_names = set(newest.answer.capabilities), set(other.answer.capabilities)
    if missing := sorted(newest_names - other_names):
        yield f"without the {_named('capabilit', missing, 'y', 'ies')}"
    if added := sorted(other_names - newest_names):
        yield f"with the {_named('capabilit', added, 'y', 'ies')}"
    newest_definitions = {(each.kind, each.name): each.definition for each in newest.offers}
    definitions = {(each.kind, each.name): each.definition for each in other.offers}
    missing_items = [item for item in newest_definitions if item not in definitions]
    added_items = [item for item in definitions if item not in newest_definitions]
    for kind in KINDS:
        if names := [name for item_kind, name in missing_items if item_kind == kind]:
            yield f"without the {_named(kind, names)}"
        if names := [name for item_kind, name in added_items if item_kind == kind]:
            yield f"with the {_named(kind, names)}"
    names_by_change: dict[tuple[str, str, str], list[str]] = {}
    for (kind, name), definition in definitions.items():
        for member, verb in _changes(newest_definitions.get((kind, name), definition), definition):
            names_by_change.setdefault((kind, member, verb), []).append(name)
    for (kind, member, verb), names in names_by_change.items():
        yield f"{_plain(member)} {verb} in {_named(kind, names)}"


def _changes(reference: Mapping[str, Any], definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the members of a definition that differ, each with the kind of the difference."""
    for member in sorted(reference.keys() | definition.keys()):
        if member not in definition:
            yield member, "is missing"
        elif member not in reference:
            yield member, "is new"
        elif reference[member] != definition[member]:
            yield member, "differs"


def _named(kind: str, names: Sequence[str], singular: str = "", plural: str = "s") -> str:
    """Return a kind and the first names. `singular` and `plural` are the endings of the kind."""
    first_names = ", ".join(map(_plain, names[:MAX_NAMED_ITEMS]))
    more = f" and {len(names) - MAX_NAMED_ITEMS} more" if len(names) > MAX_NAMED_ITEMS else ""
    return f"{kind}{plural if len(names) > 1 else singular} {first_names}{more}"


def _plain(name: object) -> str:
    """Return a name that a server chose, on one line and without control characters."""
    return clean(str(name)[:MAX_NAME_LENGTH], newlines=False)


def _lines(answers: Sequence[RevisionAnswer]) -> Iterator[str]:
    """Yield a table of the revisions, then the differences and faults."""
    rows = [("revision", "answer", "items")]
    for each in answers:
        counts = ", ".join(f"{number} {kind}{'s' * (number > 1)}" for kind, number in each.items.items())
        rows.append((each.revision, _outcome(each), counts))
    yield from aligned(rows)
    for each in answers:
        if texts := [*each.differences, *each.remarks]:
            yield ""
            yield f"{each.revision}:"
            yield from (f"  {text}" for text in texts)


def _outcome(answer: RevisionAnswer) -> str:
    if not answer.answered_revision:
        return f"failed: {answer.problem}"
    return "ok" if answer.answered_revision == answer.revision else f"answers with {answer.answered_revision}"
