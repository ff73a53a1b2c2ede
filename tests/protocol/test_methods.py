"""The table of methods agrees with the matrix of eras."""

from __future__ import annotations

from mcpdesk.protocol.methods import METHODS, canonical
from mcpdesk.protocol.revisions import R1, R2, R5, REVISIONS


def test_methods_exist_where_the_specification_has_them() -> None:
    here = {name for name, row in METHODS.items() if row.serves(R5)}
    assert {"server/discover", "subscriptions/listen", "tools/call"} <= here
    assert here.isdisjoint({"initialize", "ping", "logging/setLevel", "resources/subscribe"})
    assert METHODS["completion/complete"].serves(R1)
    assert METHODS["completion/complete"].serves(R2)
    assert all(METHODS["tools/list"].serves(revision) for revision in REVISIONS)


def test_dotted_and_misspelt_names_are_understood() -> None:
    assert canonical("resources.templates.list") == "resources/templates/list"
    assert canonical("notifications/canceled") == "notifications/cancelled"
    assert canonical("custom.method") == "custom.method"
