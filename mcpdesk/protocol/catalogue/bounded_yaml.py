"""Loading of untrusted YAML, with limits on its size, its depth and the expansion of its aliases.

A few hundred bytes of aliases can expand to billions of values. The events of the document are counted before
any value is constructed, so that rejecting a document costs no more than parsing it once.
"""

from __future__ import annotations

import re
from typing import Any

MAX_DEPTH = 100
"""Maximum nesting of lists and mappings."""
MAX_ALIASED_VALUES = 100_000
"""Maximum number of values that all aliases of a document may expand to."""
MAX_DIGITS = 1_000
"""Maximum length in characters of a number. YAML 1.1 has base-60 numbers whose value takes long to
compute.
"""
_NUMBER = re.compile(r"[-+]?[0-9][0-9_:.]*")


class YamlFault(ValueError):
    """The document is not YAML or exceeds a limit. `line` counts from 1, and is 0 if unknown."""

    def __init__(self, problem: str, line: int = 0) -> None:
        super().__init__(problem)
        self.line = line


def load_yaml(text: str, loader: Any, max_chars: int, *, aliases: bool = True) -> Any:
    """Load one document with a safe loader class of PyYAML.

    `max_chars` is the maximum number of characters. If `aliases` is False, aliases and anchors are rejected.
    Raises: YamlFault.
    """
    import yaml

    if len(text) > max_chars:
        raise YamlFault(f"the document has {len(text):,} characters; {max_chars:,} are allowed", 1)
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
    """Check the number of values, the depth and the expansion of aliases. Raises: YamlFault."""
    import yaml

    sizes: dict[str, int | None] = {}
    """Number of values below each anchor, by name of the anchor, or None while the end of its value was not
    reached.
    """
    open_nodes: list[tuple[str | None, int]] = []
    """Anchor of each unfinished list or mapping, and the number of values before it."""
    count = aliased_count = 0
    for event in events:
        line = event.start_mark.line + 1
        anchor = getattr(event, "anchor", None)
        if anchor is not None and not may_alias:
            raise YamlFault("it uses a YAML alias (& or *)", line)
        match event:
            case yaml.AliasEvent():
                size = sizes.get(event.anchor, 0)
                if size is None:
                    raise YamlFault(f"the alias *{anchor} refers to a value that contains it", line)
                count += size
                aliased_count += size
                if aliased_count > MAX_ALIASED_VALUES:
                    raise YamlFault(f"its aliases expand to more than {MAX_ALIASED_VALUES:,} values", line)
            case yaml.CollectionStartEvent():
                open_nodes.append((anchor, count))
                count += 1
                if anchor is not None:
                    sizes[anchor] = None
                if len(open_nodes) > MAX_DEPTH:
                    raise YamlFault(f"it is nested more than {MAX_DEPTH} levels deep", line)
            case yaml.CollectionEndEvent():
                anchor, count_at_start = open_nodes.pop()
                if anchor is not None:
                    sizes[anchor] = count - count_at_start
            case yaml.ScalarEvent():
                count += 1
                if anchor is not None:
                    sizes[anchor] = 1
                value = event.value
                if len(value) > MAX_DIGITS and event.implicit[0] and _NUMBER.fullmatch(value):
                    text = f"a number has {len(value):,} characters; {MAX_DIGITS:,} are allowed"
                    raise YamlFault(text, line)
