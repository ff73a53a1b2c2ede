"""A picture in a result is drawn between its other contents."""

from __future__ import annotations

import orjson

from mcpdesk.link.values import CallOutcome
from mcpdesk.tui.results.result_view import ResultView
from tests.support.patience import until
from tests.support.pictures import encoded, packed, two_halves
from tests.support.widgets import staged


async def test_an_image_is_drawn_below_what_is_said_about_it() -> None:
    view = ResultView()
    image = {"type": "image", "data": encoded(packed(two_halves())), "mimeType": "image/png"}
    result = {"content": [{"type": "text", "text": "a flag"}, image]}
    raw = orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": result})
    async with staged(view) as (stage, pilot):
        await view.show(CallOutcome(result, None, raw, 0.0031), {})
        await until(lambda: "▀▀" in stage.shown(), pilot)
        places = [stage.shown().index(words) for words in ("a flag", "40 x 40 PNG · image/png", "▀▀")]
        assert places == sorted(places)
