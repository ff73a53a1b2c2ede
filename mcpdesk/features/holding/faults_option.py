"""Option `--faults` of the commands that serve clients."""

from __future__ import annotations

from pathlib import Path

import click

from mcpdesk.errors import DeskUserError
from mcpdesk.feature import CoreOption


def fault_rules(file: Path | None) -> str:
    """Return the rules of `--faults`, one per line. Raises: DeskUserError for an invalid file."""
    if file is None:
        return ""
    from mcpdesk.features.holding.faults import FaultRules

    try:
        return FaultRules(file.expanduser().read_text("utf-8")).text
    except OSError as error:
        raise DeskUserError(f"--faults: {file} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise DeskUserError(f"--faults: {file}, {error}.", "A rule: delay 2s 10% for tool:echo") from None


FAULTS = CoreOption(
    "faults",
    click.option(
        "--faults",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Delay, drop or break messages by the rules in FILE (see docs/faults.md). Default: no faults.",
    ),
    fault_rules,
    "mcpdesk serve ~/servers/a --faults faults.txt       delay or drop some responses",
)
