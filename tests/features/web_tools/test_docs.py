"""ReadDocs: pages of this machine, with a browser and without one."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.errors import HandlerError
from mcpdesk.features.web_tools import browser, fetch, page_text
from mcpdesk.features.web_tools.browser import METHODS, find_browser
from mcpdesk.server.offer.tool import ToolResult
from mcpdesk.server.state.server_state import MAX_BROWSERS, ServerState, ToolOptions
from mcpdesk.tools import conversion
from tests.features.web_tools.pages import PNG, SENTENCE, Site, site
from tests.tools.support import ToolContext, fields, use

BROWSER = find_browser()
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no browser was found on this machine")
LONG_TIMEOUT_S = 90.0
"""For a browser on a busy machine."""


@pytest.fixture
async def served() -> AsyncIterator[Site]:
    async with site() as running:
        yield running


@pytest.fixture
def no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "find_browser", lambda: None)


@pytest.fixture(params=sorted(METHODS))
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Pages are drawn this way."""
    wanted = str(request.param)
    monkeypatch.setattr(browser, "find_spec", lambda name: wanted == "playwright" or None)
    monkeypatch.setattr(browser, "TIMEOUT_S", LONG_TIMEOUT_S)
    return wanted


async def read(url: str, **more: Any) -> ToolResult[Any]:
    return await use(
        "ReadDocs", ToolContext(home=ServerState(Path("/nowhere"), Path("/nowhere"))), url=url, **more
    )


def text(result: ToolResult[Any]) -> str:
    return str(result.content[0]["text"])


@pytest.mark.usefixtures("no_browser")
async def test_without_its_libraries_the_tool_says_what_to_install(
    served: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("bs4", "markdownify"):
        monkeypatch.setitem(sys.modules, module, None)
    told = r"^ReadDocs needs beautifulsoup4 and markdownify, .*: pip install 'mcpdesk\[tools\]'$"
    with pytest.raises(HandlerError, match=told):
        await read(served.base)


@pytest.mark.usefixtures("no_browser")
async def test_an_article_comes_as_markdown_without_navigation(served: Site) -> None:
    result = await read(served.base)
    assert fields(result)["title"] == "Tides explained"
    assert (fields(result)["way"], fields(result)["format"]) == ("fetch", "markdown")
    assert text(result).startswith("# Tides\n\n" + SENTENCE.strip()[:30])
    assert "- spring\n- neap" in text(result) and "[moon](https://moon.example/)" in text(result)
    assert "```\nheight = 3\n```" in text(result)
    for noise in ("About us", "Imprint", "color: red", "from a script"):
        assert noise not in text(result)
    assert "[no browser was found on this machine" in text(result)


@pytest.mark.usefixtures("no_browser")
@pytest.mark.parametrize(
    ("body", "start"),
    [
        (b"<!doctype html><HTML><body><h1>Tides</h1></body>", "# Tides"),
        (b"tides <b>text</b>", "tides <b>text</b>"),
    ],
)
async def test_a_page_without_a_content_type_is_known_by_its_start(body: bytes, start: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert text(await read(f"http://127.0.0.1:{port}/")).startswith(start)


@pytest.mark.usefixtures("no_browser")
async def test_an_article_comes_as_words_or_as_it_is(served: Site) -> None:
    words = await read(served.base, format="text")
    assert text(words).startswith("Tides\n") and "#" not in text(words).split("[no browser")[0]
    whole = await read(served.base, format="html")
    assert text(whole).lower().startswith("<!doctype html>") and "<nav>" in text(whole)


@pytest.mark.usefixtures("no_browser")
@pytest.mark.parametrize("format", ["markdown", "html"])
async def test_links_are_absolute(served: Site, format: str) -> None:
    said = text(await read(f"{served.base}/links/page", format=format))
    for link in (f"{served.base}/links/next", f"{served.base}/top", "https://else.example/a", "mailto:ada@x"):
        assert f"({link})" in said or f'"{link}"' in said, link
    assert f"{served.base}/links/picture.png" in said and "base64" not in said
    based = text(await read(f"{served.base}/based"))
    assert "(https://cdn.example/docs/next)" in based


@pytest.mark.usefixtures("no_browser")
async def test_a_long_page_is_cut_and_whole_in_a_file(served: Site, tmp_path: Path) -> None:
    context = ToolContext(home=ServerState(tmp_path, tmp_path / "state", (), ToolOptions(output_chars=2000)))
    result = await use("ReadDocs", context, url=f"{served.base}/long")
    assert len(text(result)) <= 2000 and fields(result)["truncated"]
    path = Path(fields(result)["output_file"])
    assert f"the full text is in {path}" in text(result) and path.is_relative_to(tmp_path / "state")
    whole = path.read_text()
    assert whole.count("high water") == 1000 and whole.startswith(text(result)[:1000])


@pytest.mark.parametrize("path", ["/pdf", "/unnamed-pdf"])
async def test_without_its_library_a_pdf_is_refused_with_what_to_install(
    served: Site, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "find_spec", lambda name: None)
    told = r"is a PDF file, which needs pypdfium2: pip install 'mcpdesk\[tools\]'; or .*pdftotext"
    with pytest.raises(HandlerError, match=told):
        await read(served.base + path)


@pytest.mark.process
async def test_the_text_of_a_pdf_is_read_and_a_broken_one_is_an_error(served: Site) -> None:
    result = await read(f"{served.base}/tides.pdf")
    assert text(result) == "[page 1]\nSpring tide\n\n[page 2]\nNeap tide\n\n[PDF, 2 pages]"
    assert (fields(result)["format"], fields(result)["note"]) == ("text", "PDF, 2 pages")
    with pytest.raises(HandlerError, match="is a broken PDF file: "):
        await read(f"{served.base}/pdf")


@pytest.mark.process
async def test_a_pdf_that_is_broken_because_it_was_cut_says_so(
    served: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "MAX_BYTES", 50)
    with pytest.raises(HandlerError, match=r"\(only the first 50 bytes were read\) is a broken PDF"):
        await read(f"{served.base}/tides.pdf")


@pytest.mark.usefixtures("no_browser")
async def test_a_long_title_is_cut(served: Site) -> None:
    assert fields(await read(f"{served.base}/titled"))["title"] == ("tide " * 100)


@pytest.mark.usefixtures("no_browser")
async def test_a_page_without_text_says_so(served: Site) -> None:
    result = await read(f"{served.base}/textless")
    assert text(result).startswith("(no text)\n\n[the page has no text; no browser was found")


@needs_browser
@pytest.mark.browser
@pytest.mark.timeout(300)
async def test_a_page_is_read_when_its_network_is_idle(served: Site, way: str) -> None:
    assert text(await read(f"{served.base}/single-page")) == "# Drawn late"
    assert text(await read(f"{served.base}/data-page")) == "from the service"
    bare = await read(f"{served.base}/textless")
    assert fields(bare)["way"] == way, fields(bare)["note"]
    assert text(bare).startswith("(no text)\n\n[the page has no text after its network was idle; scripts may")


@needs_browser
@pytest.mark.browser
@pytest.mark.timeout(300)
async def test_a_page_built_by_a_script_is_drawn(served: Site, way: str) -> None:
    result = await read(f"{served.base}/built", wait_ms=3000)
    assert fields(result)["way"] == way, fields(result)["note"]
    assert text(result) == "# Built by a script"
    assert fields(result)["title"] == "Built"


@needs_browser
@pytest.mark.browser
@pytest.mark.timeout(300)
async def test_a_page_cannot_reach_into_private_networks(served: Site, way: str) -> None:
    port = served.base.rpartition(":")[2]
    served.other = f"http://10.0.0.1:{port}"
    html = text(await read(f"{served.base}/built", wait_ms=3000, format="html"))
    assert "Built by a script" in html and "data-leak" not in html.replace("dataset.leak", "")
    served.other = served.base
    html = text(await read(f"{served.base}/built", wait_ms=3000, format="html"))
    assert 'data-leak="secret"' in html, "this machine is allowed"


@needs_browser
@pytest.mark.browser
@pytest.mark.timeout(300)
async def test_what_a_browser_shows_instead_of_a_page_is_none(served: Site, way: str) -> None:
    result = await read(f"{served.base}/astray")
    assert text(result).startswith("Led astray\n") and "does not exist or is not allowed" in text(result)


@needs_browser
@pytest.mark.browser
@pytest.mark.timeout(300)
async def test_a_browser_that_is_refused_leaves_what_was_fetched(
    served: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "TIMEOUT_S", LONG_TIMEOUT_S)
    result = await read(f"{served.base}/once")
    assert text(result).startswith("Status 200\n") and "received HTTP 429" in text(result)


@needs_browser
@pytest.mark.browser
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("way", "load_s"), [("playwright", 0.2), ("chromium", 65.0)], indirect=["way"])
async def test_a_picture_that_never_comes_does_not_cost_the_page(
    served: Site, way: str, load_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "LOAD_TIMEOUT_S", load_s)
    result = await read(f"{served.base}/waiting")
    assert "Built meanwhile" in text(result) and fields(result)["way"] == way
    assert "[the page was still loading when the wait of 0 ms ended; a longer wait_ms" in text(result)


async def test_no_more_than_a_few_browsers_draw_at_one_time(
    served: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawing: list[str] = []
    most: list[int] = []

    async def draws(_program: str, url: str, *_others: object) -> tuple[str, bool]:
        drawing.append(url)
        most.append(len(drawing))
        await asyncio.sleep(0.2)
        drawing.remove(url)
        return "<p>Drawn", False

    monkeypatch.setattr(browser, "find_browser", lambda: "/bin/true")
    monkeypatch.setattr(browser, "find_spec", lambda name: None)
    monkeypatch.setitem(METHODS, "chromium", draws)
    context = ToolContext(home=ServerState(Path("/nowhere"), Path("/nowhere")))
    pages = await asyncio.gather(
        *(use("ReadDocs", context, url=served.base) for _ in range(2 * MAX_BROWSERS))
    )
    assert [text(page) for page in pages] == ["Drawn"] * 2 * MAX_BROWSERS and max(most) <= MAX_BROWSERS


async def test_a_browser_that_fails_leaves_what_was_fetched(
    served: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\nexit 7\n")
    broken.chmod(0o755)
    monkeypatch.setattr(browser, "find_browser", lambda: str(broken))
    monkeypatch.setattr(browser, "find_spec", lambda name: None)
    result = await read(served.base)
    assert text(result).startswith("# Tides")
    assert "scripts of the page did not run" in fields(result)["note"]
    assert "ended with exit code 7" in text(result)


@pytest.mark.usefixtures("no_browser")
@pytest.mark.parametrize(
    ("path", "words"), [("/latin", "Größe: café"), ("/meta", "日本")], ids=["named", "in the head"]
)
async def test_texts_of_any_encoding_are_read(served: Site, path: str, words: str) -> None:
    assert words in text(await read(served.base + path))


async def test_other_texts_come_as_they_are(served: Site) -> None:
    result = await read(f"{served.base}/json")
    assert (text(result), fields(result)["format"]) == ('{"tide": 3}', "text")


async def test_a_text_of_a_type_the_server_does_not_know_is_one(served: Site) -> None:
    assert text(await read(f"{served.base}/Makefile")) == "all:\n\techo größer\n"
    with pytest.raises(HandlerError, match=r"is not text but application/octet-stream \(6 bytes\)"):
        await read(f"{served.base}/program")


async def test_a_picture_is_shown(served: Site) -> None:
    shown = await read(f"{served.base}/picture")
    assert base64.b64decode(shown.content[1]["data"]) == PNG


@pytest.mark.usefixtures("no_browser")
async def test_redirects_are_followed_and_told(served: Site) -> None:
    result = await read(f"{served.base}/hop/3")
    assert fields(result)["url"] == f"{served.base}/"


async def test_redirects_without_an_end_are_not(served: Site) -> None:
    with pytest.raises(HandlerError, match="redirects more than 10 times"):
        await read(f"{served.base}/hop/11")


async def test_what_is_too_large_is_cut_and_said(served: Site, tmp_path: Path) -> None:
    context = ToolContext(home=ServerState(tmp_path, tmp_path / "state"))
    result = await use("ReadDocs", context, url=f"{served.base}/endless")
    assert fields(result)["truncated"] and fields(result)["bytes"] == 10 << 20
    assert (
        "[the document is larger than the part that was read]" in text(result) and len(text(result)) <= 30_000
    )


@pytest.mark.usefixtures("no_browser")
async def test_a_page_with_too_much_markup_is_cut_and_said(
    served: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_text, "MAX_CHARACTERS", 500)
    result = await read(served.base)
    assert fields(result)["truncated"]
    assert text(result).endswith("[the document is larger than the part that was read]")


async def test_a_server_that_never_answers_is_left(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "TIMEOUT_S", 0.2)
    with pytest.raises(HandlerError, match=r"did not answer within 0\.2 s"):
        await read(f"{served.base}/slow")


async def test_a_missing_page_is_an_error(served: Site) -> None:
    with pytest.raises(HandlerError, match="/gone answered HTTP 404 Not Found"):
        await read(f"{served.base}/gone")


PRIVATE = "http://10.1.2.3/"


@pytest.mark.parametrize("url", [PRIVATE, "http://169.254.169.254/latest/meta-data"])
async def test_a_redirect_into_a_private_network_is_not_followed(served: Site, url: str) -> None:
    with pytest.raises(HandlerError, match="in a private network"):
        await read(f"{served.base}/away?to={url}")


async def test_a_page_of_the_internet_does_not_redirect_to_this_machine(
    served: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "are_local", lambda addresses: False)  # as if the first page were far away
    with pytest.raises(HandlerError, match="is this machine, which a page of the internet must not open"):
        await read(f"{served.base}/away?to={served.base}/json")
    assert not any(path.startswith("/json") for path in served.asked)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("", "is not allowed; use a URL with http:// or https://"),
        ("tides", "is not allowed"),
        ("file:///etc/passwd", "is not allowed"),
        ("javascript:alert(1)", "is not allowed"),
        ("http://", "is not allowed"),
        ("http://[::1", "is not a URL"),
        ("http://user:pw@127.0.0.1/", "must not contain a user name"),
        ("http://127.0.0.1/a b", "contains blanks"),
        ("http://127.0.0.1/\x00", "contains blanks or control characters"),
        ("http://127.0.0.1:99999/", "is not a URL"),
        ("http://" + "x" * 9000, "at most 8000"),
        ("http://no-such-host.invalid/", "cannot be found"),
        (PRIVATE, "in a private network"),
        ("http://127.0.0.1:1/", "cannot be fetched"),
    ],
)
async def test_what_cannot_be_read_says_why(url: str, complaint: str) -> None:
    with pytest.raises(HandlerError, match=complaint):
        await read(url)
