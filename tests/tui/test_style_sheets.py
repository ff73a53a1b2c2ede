"""Style sheets name only widgets that exist. Textual ignores a rule for any other type."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import textual

from mcpdesk.paths import PACKAGE

ATTRIBUTES = ("DEFAULT_CSS", "CSS")
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
BODY = re.compile(r"\{[^{}]*\}")
TYPE = re.compile(r"(?<![\w.#:$-])[A-Z]\w*")


def style_sheets(source: str) -> Iterator[str]:
    """Yield the style sheets among the attributes of classes."""
    for statement in ast.walk(ast.parse(source)):
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            names = [each.id for each in statement.targets if isinstance(each, ast.Name)]
            if any(name in ATTRIBUTES for name in names):
                yield str(statement.value.value)


def test_each_type_in_a_style_sheet_is_a_class() -> None:
    own = {path: path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    library = [path.read_text("utf-8") for path in Path(textual.__file__).parent.rglob("*.py")]
    classes = {name for source in (*own.values(), *library) for name in CLASS.findall(source)}
    sheets = [(path, path.read_text("utf-8")) for path in PACKAGE.rglob("*.tcss")]
    sheets += [
        (path, text) for path, source in own.items() if "CSS" in source for text in style_sheets(source)
    ]
    types = [
        (path.name, name)
        for path, text in sheets
        for name in TYPE.findall(BODY.sub("{}", COMMENT.sub("", text)))
    ]
    assert len(sheets) > 50 and len(types) > 200
    assert [each for each in types if each[1] not in classes] == []
