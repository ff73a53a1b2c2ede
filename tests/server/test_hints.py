"""Types as JSON Schema."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.server.schemas.hints import (
    Doc,
    HintError,
    from_json,
    read_docstring,
    schema_of,
    with_description,
)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Node:
    """A node.

    Attributes:
        value: what it holds
    """

    value: int
    colour: Annotated[Colour, "how it looks"] = Colour.RED
    children: list[Node] = field(default_factory=list)


class Part(TypedDict, total=False):
    size: Annotated[Literal["small", "large"], "how big"]


class Model:
    """Stands for a model of a validation library."""

    def __init__(self, x: int) -> None:
        self.x = x

    @classmethod
    def model_json_schema(cls, ref_template: str) -> dict[str, Any]:
        inner = {"Inner": {"type": "integer"}}
        return {"properties": {"x": {"$ref": ref_template.format(model="Inner")}}, "$defs": inner}

    @classmethod
    def model_validate(cls, value: Any) -> Model:
        return cls(value["x"])


def test_enums_and_literals_keep_the_order_they_were_written_in() -> None:
    assert schema_of(Literal["z", "a"]) == {"enum": ["z", "a"], "type": "string"}
    assert schema_of(Colour)["enum"] == ["red", "blue"]


def test_recursive_dataclass_refers_to_itself_and_keeps_its_descriptions() -> None:
    schema = schema_of(Node)
    assert schema["description"] == "A node."
    assert schema["properties"]["value"]["description"] == "what it holds"
    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert schema["$defs"]["Node"]["properties"]["colour"]["description"] == "how it looks"


def test_typed_dict_has_described_choices() -> None:
    size = schema_of(Part)["properties"]["size"]
    assert size["enum"] == ["small", "large"]
    assert size["description"] == "how big"
    assert "required" not in schema_of(Part)


def test_foreign_models_bring_their_own_schema_and_validation() -> None:
    schema = schema_of(list[Model])
    assert schema["items"] == {"properties": {"x": {"$ref": "#/$defs/Inner"}}}
    assert schema["$defs"] == {"Inner": {"type": "integer"}}
    assert from_json(Model, {"x": 3}).x == 3
    assert from_json(Path, "/a") == Path("/a")


@pytest.mark.parametrize("hint", [complex, Node | Part, list[complex]])
def test_inexpressible_type_is_an_error(hint: Any) -> None:
    with pytest.raises(HintError):
        schema_of(hint)


def test_text_in_annotated_is_the_description_and_wins_over_the_docstring() -> None:
    assert schema_of(with_description(Annotated[int, "mine"], "docstring"))["description"] == "mine"
    assert (
        schema_of(with_description(Annotated[int, msgspec.Meta(description="meta")], "d"))["description"]
        == "meta"
    )
    assert schema_of(with_description(Annotated[int, msgspec.Meta(ge=1)], "docstring")) == {
        "type": "integer",
        "minimum": 1,
        "description": "docstring",
    }


def test_lines_broken_for_an_editor_flow_and_what_has_a_shape_keeps_it() -> None:
    text = "Do it\nwell.\n\nWays:\n- one\n- two\n\n    code\n    more\n\n1. first\n2. second"
    flowing = "Do it well.\n\nWays:\n- one\n- two\n\n    code\n    more\n\n1. first\n2. second"
    assert read_docstring(text).text == flowing


@pytest.mark.parametrize(
    "docstring",
    [
        "Add.\n\nArgs:\n    a: the first,\n        really\n    b (int): the second\n\nReturns:\n    the sum",
        "Add.\n\n:param a: the first, really\n:param b: the second\n:returns: the sum",
        "Add.\n\nParameters\n----------\na : int\n    the first, really\nb : int\n    the second\n",
    ],
)
def test_parameters_are_found_in_every_style(docstring: str) -> None:
    assert read_docstring(docstring) == Doc("Add.", {"a": "the first, really", "b": "the second"})


def test_section_names_inside_sentences_are_no_sections() -> None:
    assert read_docstring("Example: a line about Args: and more.").parameters == {}


PIECES = [
    "Args:",
    "Raises:",
    "Parameters\n----------\n",
    ":param x:",
    "@param y",
    ":",
    "x",
    "(int)",
    "\n",
    "    ",
    "\0",
    "é",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=4)).map("".join))
def test_any_docstring_is_read(docstring: str) -> None:
    read_docstring(docstring)
