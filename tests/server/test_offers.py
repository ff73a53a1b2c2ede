"""What a server offers, encoded once and shaped per revision."""

from __future__ import annotations

import orjson
import pytest

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.protocol.revisions import R1, R4, R5
from mcpdesk.server.offers import Offers
from mcpdesk.server.server import Limits, Server
from tests.support.served import make_server


def test_a_page_is_encoded_once_until_something_changes() -> None:
    server = make_server()
    offers = Offers(server)
    page = offers.page("tools/list", R5, None)
    assert offers.page("tools/list", R5, None) is page
    assert offers.page("tools/list", R4, None) != page
    server.tools.replace(list(server.tools)[:1])
    assert len(orjson.loads(offers.page("tools/list", R5, None))["tools"]) == 1


def test_a_cursor_survives_a_change_before_it() -> None:
    server = make_server()
    server.limits = Limits(page_size=4)
    offers = Offers(server)
    cursor = orjson.loads(offers.page("tools/list", R5, None))["nextCursor"]
    server.tools.replace(list(server.tools)[1:])
    following = orjson.loads(offers.page("tools/list", R5, cursor))["tools"]
    assert following[0]["name"] == "steps"


@pytest.mark.parametrize("cursor", ["", "AAAA", "WzEsMl0=", "bm8=", "é"])
def test_a_forged_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(RemoteProtocolError, match="cursor"):
        Offers(make_server()).page("tools/list", R5, cursor)


def test_identity_and_capabilities_follow_the_revision() -> None:
    offers = Offers(make_server())
    assert offers.implementation(R1) == {"name": "sample", "version": "1.0"}
    assert offers.implementation(R5)["title"] == "Sample"
    assert "logging" in offers.capabilities(R4)
    assert "logging" not in offers.capabilities(R5)


def test_a_changed_identity_is_told_after_forgetting() -> None:
    server = Server("a", "1")
    offers = Offers(server)
    offers.implementation(R5)
    server.version = "2"
    offers.forget()
    assert offers.implementation(R5)["version"] == "2"
