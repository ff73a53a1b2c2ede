"""Skills of an upstream server, on the desk."""

from __future__ import annotations

import sys

import pytest

from mcpdesk.client.targets import CommandTarget
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support import skill_server
from tests.support.desk import RunningDesk, running_desk
from tests.support.patience import until
from tests.support.skill_server import FORM, MAIN


async def read(desk: RunningDesk, uri: str) -> tuple[str, str]:
    """Text the desk reads at a URI, and the error message if it fails."""
    outcome = await desk.outcome("acme", "resources/read", {"uri": uri})
    text = outcome.result["contents"][0]["text"] if outcome.result else ""
    return text, (outcome.error or {}).get("message", "")


@pytest.mark.process
async def test_the_desk_shows_a_strangers_skill_and_refuses_what_was_changed_on_the_way() -> None:
    def plan(name: str, habit: str) -> UpstreamPlan:
        return UpstreamPlan(name, CommandTarget((sys.executable, skill_server.PROGRAM, habit)))

    async with running_desk(upstreams=[plan("acme", "digest"), plan("odd", "outside")]) as desk:
        await until(lambda: desk.catalogue("acme").items and desk.catalogue("odd").version > 0)
        (skill,) = desk.catalogue("acme").items
        assert (skill.kind, skill.name, skill.title, skill.description) == (
            "skill",
            MAIN,
            "refunds",
            "Pay back.",
        )
        text, reason = await read(desk, FORM)
        assert text == "" and reason.startswith(f"{FORM} does not match its skill: its digest")
        lines = [line.text for line in desk.logs() if line.server == "acme" and line.source == "stderr"]
        assert lines.index("skills/list") < lines.index("resources/read")
        await until(lambda: next(one for one in desk.view().servers if one.name == "odd").problems)
        (told,) = next(one for one in desk.view().servers if one.name == "odd").problems
        assert told.startswith("skills/list: skills 0") and "is not in its folder" in told
