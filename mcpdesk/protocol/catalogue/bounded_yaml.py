"""YAML of strangers: loaded within bounds on its size, its depth and what its aliases expand to.

A few hundred bytes of aliases can stand for billions of values. The events of the document are counted before
any value is made of them, so a document over a bound costs no more than to read it once.
"""

from __future__ import annotations

import re
from typing import Any

MOST_DEPTH = 100
"""Lists and mappings inside one another."""
MOST_ALIASED = 100_000
"""Values that all aliases of a document may stand for."""
MOST_DIGITS = 1_000
"""Characters of a number; YAML 1.1 has numbers to the base 60 whose value takes long to compute."""
_NUMBER = re.compile(r"[-+]?[0-9][0-9_:.]*")


class YamlFault(ValueError):
    """A document that is not YAML or over a bound; `line` counts from 1, 0 if it is unknown."""

    def __init__(self, problem: str, line: int = 0) -> None:
        super().__init__(problem)
        self.line = line


def load_yaml(text: str, loader: Any, most: int, *, aliases: bool = True) -> Any:
    """Load one document with a safe loader class of PyYAML.

    `most` is the size in characters; without `aliases` none is allowed, nor an anchor. Raises: YamlFault.
    """
    import yaml

    if len(text) > most:
        raise YamlFault(f"the document has {len(text):,} characters; {most:,} are allowed", 1)
    try:
        _check(yaml.parse(text, loader), aliases)
        return yaml.load(text, loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "not YAML"
        raise YamlFault(problem, 0 if mark is None else mark.line + 1) from error
    except yaml.reader.ReaderError as error:
        position = error.position if isinstance(error.position, int) else 0
        problem = str(error).partition("\n")[0]
        raise YamlFault(problem, text.count("\n", 0, position) + 1) from error
    except YamlFault:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise YamlFault(str(error).partition("\n")[0]) from error


def _check(events: Any, may_alias: bool) -> None:
    """Count values, depth and what aliases stand for. Raises: YamlFault."""
    import yaml

    sizes: dict[str, int | None] = {}
    """Anchor -> values below it; None while it is open."""
    open_nodes: list[tuple[str | None, int]] = []
    count = aliased = 0
    for event in events:
        line = event.start_mark.line + 1
        anchor = getattr(event, "anchor", None)
        if anchor is not None and not may_alias:
            raise YamlFault("it uses a YAML alias (& or *)", line)
        match event:
            case yaml.AliasEvent():
                size = sizes.get(event.anchor, 0)
                if size is None:
                    raise YamlFault(f"the alias *{anchor} is inside the value it stands for", line)
                count += size
                aliased += size
                if aliased > MOST_ALIASED:
                    raise YamlFault(f"its aliases stand for more than {MOST_ALIASED:,} values", line)
            case yaml.CollectionStartEvent():
                open_nodes.append((anchor, count))
                count += 1
                if anchor is not None:
                    sizes[anchor] = None
                if len(open_nodes) > MOST_DEPTH:
                    raise YamlFault(f"it is nested more than {MOST_DEPTH} levels deep", line)
            case yaml.CollectionEndEvent():
                anchor, before = open_nodes.pop()
                if anchor is not None:
                    sizes[anchor] = count - before
            case yaml.ScalarEvent():
                count += 1
                if anchor is not None:
                    sizes[anchor] = 1
                value = event.value
                if len(value) > MOST_DIGITS and event.implicit[0] and _NUMBER.fullmatch(value):
                    told = f"a number has {len(value):,} characters; {MOST_DIGITS:,} are allowed"
                    raise YamlFault(told, line)
