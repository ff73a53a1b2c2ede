"""HTML as a person reads it, valid or not."""

from __future__ import annotations

import pytest

from mcpdesk.features.web_tools import page_text
from mcpdesk.features.web_tools.fetch import decoded
from mcpdesk.features.web_tools.page_text import markdown, plain, title_of


@pytest.mark.slow
def test_elements_without_end_do_not_end_us() -> None:
    deep = "<div>" * 20_000 + "deep" + "</div>" * 20_000
    assert "deep" in plain(deep).text
    assert "deep" in markdown(f"<html><body>{deep}</body></html>").text


def test_a_page_that_is_one_form_is_read_without_its_fields() -> None:
    fields = "<input value=x><select><option>y</select>"
    page = markdown(f"<body><form><h1>Tides</h1><p>High</p>{fields}</form></body>")
    assert page.text == "# Tides\n\nHigh"


def test_a_page_that_is_cut_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_text, "MAX_CHARACTERS", 10)
    assert plain("<p>tides and more").is_cut and markdown("<p>tides and more").is_cut
    assert not plain("<p>tides").is_cut


def test_a_page_of_nothing_but_tags_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_text, "MAX_TAGS", 4)
    assert markdown("<p>one</p><p>two</p>") == page_text.Readable("", "one\n\ntwo")
    assert markdown("<p>one</p><p>two</p><p>three") == page_text.Readable("", "one\n\ntwo", is_cut=True)


def test_a_page_without_an_article_is_all_body() -> None:
    page = markdown("<title>T</title><body><main></main><p>One</p>\n\n\n\n<p>Two</p></body>")
    assert (page.title, page.text) == ("T", "One\n\nTwo")


def test_what_is_hidden_stays_hidden() -> None:
    page = plain(
        '<body><p hidden>a</p><div role="navigation">b</div><p aria-hidden="true">c</p><p>d</p></body>'
    )
    assert page.text == "d"


@pytest.mark.parametrize("page", ["", "<<<>>>", "<html", "\x00", "plain words"])
def test_what_is_hardly_html_is_read(page: str) -> None:
    assert (
        ("plain words" in markdown(page).text)
        == ("plain words" in plain(page).text)
        == (page == "plain words")
    )
    assert title_of(page) == ""


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        ("ü".encode(), "", "ü"),
        ("ü".encode("latin-1"), "latin-1", "ü"),
        ("ü".encode("utf-16"), "latin-1", "ü"),
        (b"\xef\xbb\xbfx", "", "x"),
        (b"\xff", "", "\ufffd"),
        ("ü".encode(), "no-such-charset", "ü"),
        (b'<meta charset="latin-1">\xfc', "", '<meta charset="latin-1">ü'),
        (b'<meta charset="idna">x', "", '<meta charset="idna">x'),
        (b'<meta charset="hex">x', "", '<meta charset="hex">x'),
    ],
)
def test_bytes_become_text(body: bytes, charset: str, text: str) -> None:
    assert decoded(body, charset) == text
