"""HTML as readable text: the article as Markdown or plain text, without navigation and other surroundings."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urljoin

from msgspec import Struct

REMOVED_TAGS = (
    "script", "style", "noscript", "template", "nav", "header", "footer", "aside", "svg", "iframe",
    "dialog", "button", "input", "select", "textarea",
)  # fmt: skip
REMOVED_ROLES = ("navigation", "banner", "contentinfo", "search", "complementary", "dialog")
ARTICLE_SELECTORS = ("main", "article", "[role=main]")
MAX_ARTICLES = 100
"""Maximum number of article elements that are examined, because some pages nest thousands of them."""
LINK_ATTRIBUTES = ("href", "src", "action", "poster")
MIN_ARTICLE_LENGTH = 200
"""Minimum number of characters of an article. If no article is long enough, the complete body is used."""
MAX_CHARACTERS = 5_000_000
"""Maximum number of characters of HTML that are converted. The rest is cut off."""
MAX_TAGS = 150_000
"""Maximum number of tags in the HTML. The conversion of a tag takes a hundred times as long as that of a
character.
"""
BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")


class Readable(Struct, frozen=True):
    """A page's title and its article."""

    title: str
    text: str
    is_cut: bool = False
    """True if the page is longer than the converted part."""


def markdown(page: str, url: str = "") -> Readable:
    """Return the article as Markdown, with absolute links.

    Must be called on a worker thread, because the conversion can take several seconds.
    """
    import markdownify

    soup = _soup(page)
    _make_links_absolute(soup, url)
    article = _article(soup)
    try:
        text = markdownify.MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(article)
    except RecursionError:
        text = article.get_text("\n", strip=True)  # the elements are nested too deeply
    return Readable(_title(soup), _without_extra_blank_lines(text), _is_cut(page))


def plain(page: str) -> Readable:
    """Return the article as plain text. Must be called on a worker thread, like `markdown`."""
    soup = _soup(page)
    return Readable(
        _title(soup), _without_extra_blank_lines(_article(soup).get_text("\n", strip=True)), _is_cut(page)
    )


def markup(page: str, url: str = "") -> Readable:
    """Return the page with absolute links, otherwise unchanged. Must be called on a worker thread."""
    soup = _soup(page)
    if not _make_links_absolute(soup, url) or _is_cut(page):
        return Readable(_title(soup), page)
    return Readable(_title(soup), str(soup))


def title_of(page: str) -> str:
    """Return the title of a page."""
    return _title(_soup(page))


def _make_links_absolute(soup: Any, url: str) -> bool:
    """Resolve links against the page's `<base>`, or against `url` if the page has no `<base>`.

    Return True if any link changed. The data of embedded images are removed, because they are not readable.
    """
    base_element = soup.find("base", href=True)
    base = urljoin(url, str(base_element["href"])) if base_element is not None else url
    is_changed = False
    for attribute in LINK_ATTRIBUTES:
        for each in soup.find_all(attrs={attribute: True}):
            link = str(each[attribute]).strip()
            try:
                absolute = "" if link.startswith("data:") else urljoin(base, link)
            except ValueError:  # `http://[` and similar invalid links
                continue
            if absolute != each[attribute]:
                each[attribute] = absolute
                is_changed = True
    return is_changed


def _soup(page: str) -> Any:
    import bs4

    return bs4.BeautifulSoup(_converted_part(page), "html.parser")


def _is_cut(page: str) -> bool:
    return len(_converted_part(page)) < len(page)


def _converted_part(page: str) -> str:
    """Return the part of a page that is converted."""
    head = page[:MAX_CHARACTERS]
    *pieces, rest = head.split("<", MAX_TAGS + 1)
    return head if len(pieces) <= MAX_TAGS else head[: -len(rest) - 1]


def _article(soup: Any) -> Any:
    """Return the longest article element, or the body. Navigation and hidden elements are removed first."""
    for each in soup(list(REMOVED_TAGS)):
        each.decompose()
    for role in REMOVED_ROLES:
        for each in soup.select(f"[role={role}]"):
            each.decompose()
    for each in soup.select("[hidden], [aria-hidden=true]"):
        each.decompose()
    for selector in ARTICLE_SELECTORS:
        article = max(
            _outermost(soup.select(selector, limit=MAX_ARTICLES)),
            key=lambda each: len(each.get_text()),
            default=None,
        )
        if article is not None and len(article.get_text(strip=True)) >= MIN_ARTICLE_LENGTH:
            return article
    return soup.body or soup


def _outermost(elements: list[Any]) -> list[Any]:
    """Return the elements that are not inside another one. `elements` must be in document order."""
    outermost: list[Any] = []
    for each in elements:
        if not outermost or all(outermost[-1] is not parent for parent in each.parents):
            outermost.append(each)
    return outermost


def _title(soup: Any) -> str:
    return " ".join(soup.title.get_text().split()) if soup.title is not None else ""


def _without_extra_blank_lines(text: str) -> str:
    return BLANK_LINES.sub("\n\n", text).strip()
