"""Exceptions name the location and the cause."""

from __future__ import annotations

import pytest

from mcpdesk.errors import ManifestError, RegistrationError


@pytest.mark.parametrize(
    ("line", "column", "text"),
    [(None, None, "mcp.json: no"), (3, None, "mcp.json:3: no"), (3, 7, "mcp.json:3:7: no")],
)
def test_manifest_error_names_the_place_as_far_as_it_is_known(
    line: int | None, column: int | None, text: str
) -> None:
    assert str(ManifestError("no", "mcp.json", line=line, column=column)) == text


def test_registration_error_names_its_source() -> None:
    assert str(RegistrationError("no", "tools/a.py:3")) == "tools/a.py:3: no"
    assert str(RegistrationError("no")) == "no"
