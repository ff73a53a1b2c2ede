"""The exceptions say where and what."""

from __future__ import annotations

import pytest

from mcpdesk import errors
from mcpdesk.errors import DeskError, ManifestError, ProtocolError, RegistrationError, RemoteProtocolError


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


def test_protocol_error_carries_code_and_data() -> None:
    error = RemoteProtocolError(-32602, "no", {"path": "a"})
    assert (error.code, error.message, error.data) == (-32602, "no", {"path": "a"})
    assert isinstance(error, ProtocolError)


def test_every_error_is_drawn_in_the_tree() -> None:
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, DeskError):
            assert name in (errors.__doc__ or "")
