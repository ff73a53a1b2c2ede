"""Core schema of YAML 1.2: `NO`, `on` and `2026-01-31` are texts, and so are all keys.

Source: YAML 1.2.2, section 10.3 (core schema).
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

_SCALARS = {
    "null": (r"~|null|Null|NULL|", "~nN\0"),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?[0-9]+", "-+0123456789"),
    "float": (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
}
"""Pattern of plain scalars and their first characters, by type. NUL stands for an empty scalar."""
_NO_LEADING_ZERO = r"(?![-+]?0[0-9])"


@cache
def core_loader(*, keeps_zeros: bool = False) -> type[yaml.SafeLoader]:
    """Return a loader class for `yaml.load` that constructs only JSON values.

    The class uses C code if PyYAML supports this. With `keeps_zeros`, a number with leading zeros is a text,
    because it may be a postal code like `01067`.
    """
    import yaml

    class CoreLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # PyYAML has no types
        yaml_implicit_resolvers: dict[str, Any] = {}
        """Replaces the resolvers of YAML 1.1."""

        def flatten_mapping(self, node: Any) -> None:
            """Resolve merge keys as the base class does, and make each key a text."""
            super().flatten_mapping(node)
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    key.tag = "tag:yaml.org,2002:str"

    for kind, (pattern, first_characters) in _SCALARS.items():
        pattern = f"{_NO_LEADING_ZERO if keeps_zeros else ''}(?:{pattern})\\Z"
        characters = [each.strip("\0") for each in first_characters]
        CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(pattern), characters)
    CoreLoader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"<<\Z"), ["<"])
    CoreLoader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
    CoreLoader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(node.value))
    return CoreLoader
