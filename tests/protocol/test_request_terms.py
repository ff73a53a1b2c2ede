"""Terms that a client declared, revision by revision."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.protocol.client_questions import (
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
from mcpdesk.protocol.revisions import (
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
    Revision,
)


@pytest.mark.requirement("6.11")
@pytest.mark.parametrize(
    ("revision", "declared", "needed", "verdict"),
    [
        (V2026_07_28, {"elicitation": {}}, FORM, True),
        (V2026_07_28, {"elicitation": {}}, URL, False),
        (V2026_07_28, {"elicitation": {"url": {}}}, FORM, False),
        (V2025_11_25, {"elicitation": {"url": {}, "form": {}}}, URL, True),
        (V2025_06_18, {"elicitation": {"url": {}}}, FORM, True),
        (V2025_06_18, {"elicitation": {"url": {}}}, URL, False),
        (V2025_03_26, {"elicitation": {}}, FORM, False),
        (V2024_11_05, {"elicitation": {"form": {}, "url": {}}}, FORM, False),
        (V2024_11_05, {"elicitation": {"form": {}, "url": {}}}, URL, False),
        (V2024_11_05, {"sampling": {"tools": {}}}, SAMPLING_TOOLS, False),
        (V2026_07_28, {"elicitation": True}, FORM, False),
        (V2024_11_05, {"sampling": {}}, SAMPLING, True),
        (V2025_06_18, {"sampling": {"tools": {}}}, SAMPLING_TOOLS, False),
        (V2025_11_25, {"sampling": {"tools": {}}}, SAMPLING_TOOLS, True),
        (V2025_06_18, {"sampling": {}}, SAMPLING_CONTEXT, True),
        (V2025_11_25, {"sampling": {}}, SAMPLING_CONTEXT, False),
        (V2024_11_05, {"roots": {"listChanged": True}}, ROOTS, True),
        (V2026_07_28, {}, ROOTS, False),
    ],
)
def test_a_capability_counts_where_its_revision_has_it(
    revision: Revision, declared: dict[str, Any], needed: dict[str, Any], verdict: bool
) -> None:
    assert declares(Terms(revision, declared), needed) is verdict


def test_only_questions_count_as_asking() -> None:
    assert can_be_asked(Terms(V2026_07_28, {"roots": {}})) and not can_be_asked(
        Terms(V2026_07_28, {"extensions": {}})
    )


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
    assert declares_tasks(Terms(V2026_07_28, capabilities)) is declares
