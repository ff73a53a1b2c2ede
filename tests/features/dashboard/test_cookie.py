"""The cookie of the dashboard, which a browser also sends to other programs of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.dashboard import dashboard
from tests.web.browsing import needs_browser, surfing
from tests.web.test_origins import another_server

STEALING = """
async ({url}) => {
  const json = {"Content-Type": "application/json"}, body = JSON.stringify({question: 1, answers: []});
  const fetched = (place, options) => fetch(url + place, {credentials: "include", ...options}).then(
    answer => answer.status, () => "blocked");
  return [
    await fetched("/dashboard/events", {}),
    await fetched("/dashboard/session", {}),
    await fetched("/dashboard/answer", {method: "POST", headers: json, body}),
    await fetched("/dashboard/sign-in", {method: "POST", headers: json, body: '{"word": "x"}'}),
  ];
}
"""


@needs_browser
@pytest.mark.browser
async def test_another_port_receives_the_cookie_of_the_dashboard_and_can_do_nothing_with_it(
    tmp_path: Path,
) -> None:
    cookies = list[str]()
    async with (
        dashboard(tmp_path, key="") as shown,
        another_server(cookies) as port,
        surfing(shown) as surfer,
    ):
        page = await surfer.page.context.new_page()
        await page.goto(f"http://127.0.0.1:{port}/dashboard/x")
        assert await page.evaluate(STEALING, {"url": shown.url}) == ["blocked"] * 4
        (caught,) = [each for each in cookies if each][:1]
        assert caught.startswith("mcpdesk-dashboard-")
        for path in ("events", "older?before=0", "exchange?number=0", "jobs/x/download"):
            assert (await shown.get(f"/dashboard/{path}", Cookie=caught)).status == 401, path
        assert (await shown.post("answer", {"question": 1, "answers": []}, Cookie=caught)).status == 401
        assert await (await shown.get("/dashboard/session", Cookie=caught)).json() == {"signed_in": False}
