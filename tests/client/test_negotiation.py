"""Capabilities that a client declares."""

from __future__ import annotations

from mcpdesk.client.negotiation import declared_capabilities, with_capabilities


def test_extensions_of_a_request_are_declared_beside_those_of_the_client() -> None:
    extensions = {"example.org/pages": {"kinds": ["a"]}}
    declared = declared_capabilities(["sampling/createMessage"], extensions)
    assert declared == {"sampling": {}, "extensions": extensions}
    both = with_capabilities(declared, {"extensions": {"example.org/tasks": {}}, "roots": {}})
    assert both == {
        "sampling": {},
        "roots": {},
        "extensions": {"example.org/pages": {"kinds": ["a"]}, "example.org/tasks": {}},
    }
    assert declared["extensions"] == extensions
    assert declared_capabilities([], {}) == {}
