"""What a client declared, revision by revision."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.protocol.client_features import (
    FORM,
    ROOTS,
    SAMPLING,
    SAMPLING_CONTEXT,
    SAMPLING_TOOLS,
    TASKS,
    URL,
    Terms,
    can_be_asked,
    declares,
    declares_tasks,
)
from mcpdesk.protocol.revisions import R1, R2, R3, R4, R5, Revision


@pytest.mark.requirement("6.11")
@pytest.mark.parametrize(
    ("revision", "declared", "needed", "verdict"),
    [
        (R5, {"elicitation": {}}, FORM, True),
        (R5, {"elicitation": {}}, URL, False),
        (R5, {"elicitation": {"url": {}}}, FORM, False),
        (R4, {"elicitation": {"url": {}, "form": {}}}, URL, True),
        (R3, {"elicitation": {"url": {}}}, FORM, True),
        (R3, {"elicitation": {"url": {}}}, URL, False),
        (R2, {"elicitation": {}}, FORM, False),
        (R1, {"elicitation": {"form": {}, "url": {}}}, FORM, False),
        (R1, {"elicitation": {"form": {}, "url": {}}}, URL, False),
        (R1, {"sampling": {"tools": {}}}, SAMPLING_TOOLS, False),
        (R5, {"elicitation": True}, FORM, False),
        (R1, {"sampling": {}}, SAMPLING, True),
        (R3, {"sampling": {"tools": {}}}, SAMPLING_TOOLS, False),
        (R4, {"sampling": {"tools": {}}}, SAMPLING_TOOLS, True),
        (R3, {"sampling": {}}, SAMPLING_CONTEXT, True),
        (R4, {"sampling": {}}, SAMPLING_CONTEXT, False),
        (R1, {"roots": {"listChanged": True}}, ROOTS, True),
        (R5, {}, ROOTS, False),
    ],
)
def test_a_capability_counts_where_its_revision_has_it(
    revision: Revision, declared: dict[str, Any], needed: dict[str, Any], verdict: bool
) -> None:
    assert declares(Terms(revision, declared), needed) is verdict


def test_only_questions_count_as_asking() -> None:
    assert can_be_asked(Terms(R5, {"roots": {}})) and not can_be_asked(Terms(R5, {"extensions": {}}))


@pytest.mark.parametrize(
    ("capabilities", "declares"),
    [
        ({"extensions": {TASKS: {}}}, True),
        ({"extensions": {TASKS: {"more": 1}, "com.example/x": {}}}, True),
        ({"extensions": {"com.example/x": {}}}, False),
        ({"extensions": {TASKS: None}}, False),
        ({"extensions": [TASKS]}, False),
        ({"tasks": {}}, False),
        ({}, False),
    ],
)
def test_the_extension_is_declared_as_an_object(capabilities: dict[str, Any], declares: bool) -> None:
    assert declares_tasks(Terms(R5, capabilities)) is declares
