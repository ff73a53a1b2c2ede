"""Metadata of tools with an app, and the resource of the app."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from mcpdesk.features.apps import app_resource
from mcpdesk.features.apps.app_resource import MIME_TYPE, app_page, app_uri, is_for_apps

URI = "ui://board/main"
HTML = "<!doctype html><p>Grüße"


def content(**members: Any) -> dict[str, Any]:
    """Result of `resources/read` with these members instead of the valid ones."""
    valid = {"uri": URI, "mimeType": MIME_TYPE, "text": HTML}
    return {"contents": [{key: value for key, value in (valid | members).items() if value is not None}]}


@pytest.mark.parametrize(
    ("meta", "uri"),
    [
        ({"ui": {"resourceUri": URI}}, URI),
        ({"ui/resourceUri": URI}, URI),
        ({"ui": {"resourceUri": URI}, "ui/resourceUri": "ui://old"}, URI),
        ({"ui": {"resourceUri": "https://a.example"}}, ""),
        ({"ui": {"resourceUri": "ui://"}}, ""),
        ({"ui": {"resourceUri": 7}}, ""),
        ({"ui": "ui://board"}, ""),
        ("ui", ""),
    ],
)
def test_a_tool_names_its_app(meta: Any, uri: str) -> None:
    assert app_uri("tool", "board", {"_meta": meta}) == uri


def test_a_resource_is_an_app_by_its_scheme() -> None:
    assert app_uri("resource", URI, {}) == URI
    assert app_uri("resource", "file:///page.html", {"mimeType": MIME_TYPE}) == ""
    assert app_uri("prompt", URI, {}) == ""


@pytest.mark.parametrize(
    ("visibility", "is_visible"),
    [(None, True), (["model", "app"], True), (["app"], True), (["model"], False), ([], False)],
)
def test_visibility_decides_about_calls_of_apps(visibility: Any, is_visible: bool) -> None:
    ui = {} if visibility is None else {"visibility": visibility}
    assert is_for_apps({"_meta": {"ui": ui}}) is is_visible


def test_the_page_is_text_or_base64() -> None:
    assert app_page(URI, content()).html == HTML
    blob = base64.b64encode(HTML.encode()).decode()
    assert app_page(URI, content(text=None, blob=blob)).html == HTML
    assert app_page(URI, content(_meta={"ui": {"prefersBorder": False}})).prefers_border is False


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (content(uri="ui://other"), "no content with the URI"),
        ({"contents": "text"}, "no content with the URI"),
        (content(mimeType="text/html"), "media type of ui://board/main is text/html"),
        (content(text=None), "neither text nor blob"),
        (content(text=None, blob="%%%"), "not UTF-8 text in base64"),
        (content(text=None, blob="/w=="), "not UTF-8 text in base64"),
    ],
)
def test_an_invalid_page_is_not_shown(result: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        app_page(URI, result)


@pytest.mark.parametrize("key", ["text", "blob"])
def test_a_huge_page_is_not_shown(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setattr(app_resource, "MAX_HTML_BYTES", 30)
    with pytest.raises(ValueError, match="an app has at most 30"):
        app_page(URI, content(**{"text": None, key: "a" * 100}))
