"""URI templates: the examples of RFC 6570, and that matching undoes expanding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.protocol.catalogue.uri_template import UriTemplate
from mcpdesk.protocol.methods import MAX_URI_LENGTH

VALUES = {"var": "value", "hello": "Hello World!", "path": "/foo/bar", "x": "1024", "y": "768", "empty": ""}


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("{var}", "value"),
        ("{hello}", "Hello%20World%21"),
        ("{+var}", "value"),
        ("{+hello}", "Hello%20World!"),
        ("{+path}/here", "/foo/bar/here"),
        ("here?ref={+path}", "here?ref=/foo/bar"),
        ("X{#var}", "X#value"),
        ("X{#hello}", "X#Hello%20World!"),
        ("map?{x,y}", "map?1024,768"),
        ("{x,hello,y}", "1024,Hello%20World%21,768"),
        ("{+x,hello,y}", "1024,Hello%20World!,768"),
        ("{+path,x}/here", "/foo/bar,1024/here"),
        ("{#x,hello,y}", "#1024,Hello%20World!,768"),
        ("X{.var}", "X.value"),
        ("X{.x,y}", "X.1024.768"),
        ("{/var}", "/value"),
        ("{/var,x}/here", "/value/1024/here"),
        ("{;x,y}", ";x=1024;y=768"),
        ("{;x,y,empty}", ";x=1024;y=768;empty"),
        ("{?x,y}", "?x=1024&y=768"),
        ("{?x,y,empty}", "?x=1024&y=768&empty="),
        ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
        ("{&x,y,empty}", "&x=1024&y=768&empty="),
        ("O{undef}X", "OX"),
        ("{x,undef}", "1024"),
        ("{?undef}", ""),
    ],
)
def test_examples_of_the_standard_expand_as_printed(template: str, uri: str) -> None:
    assert UriTemplate(template).expand(VALUES) == uri


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("users://{id}", "users://7", {"id": "7"}),
        ("users://{id}/notes/{note}", "users://7/notes/a%20b", {"id": "7", "note": "a b"}),
        ("users://{id}", "users://ann@example.org", {"id": "ann@example.org"}),
        ("users://{id}", "users://", None),
        ("users://{id}", "users://7/8", None),
        ("file:///{+path}", "file:///a/b.txt", {"path": "a/b.txt"}),
        ("find://all{?q,limit}", "find://all?limit=3&q=x%26y", {"limit": "3", "q": "x&y"}),
        ("find://all{?q,limit}", "find://all", {}),
        ("find://all{?q,limit}", "find://all?other=1", None),
        ("find://all{?q}", "find://all?q=1&q=2", None),
        ("doc{.format}", "doc.md", {"format": "md"}),
        ("doc{.format}", "doc", {}),
        ("a.b", "axb", None),
        ("clock://{zone}", "clock://Köln", {"zone": "Köln"}),
    ],
)
def test_uris_match_their_template(template: str, uri: str, values: dict[str, str] | None) -> None:
    assert UriTemplate(template).match(uri) == values


@pytest.mark.parametrize(
    "template", ["{", "}", "a{b", "{}", "{a*}", "{a:3}", "{a b}", "{a}{a}", "{a,}", "{=a}"]
)
def test_malformed_template_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        UriTemplate(template)


TEXT = st.text(st.characters(codec="utf-8"), min_size=1)
SHAPES = st.sampled_from(
    ["x://{a}", "x://{a}/{b}", "x://h{/a,b}", "x://{a,b}", "x://h{;a,b}", "x://h{?a,b}", "x://h?k=1{&a,b}",
     "x://{a}{?b}", "x://{a}{#b}", "x://h/{+a}"]
)  # fmt: skip


@given(SHAPES, TEXT, TEXT)
def test_matching_undoes_expanding(shape: str, a: str, b: str) -> None:
    template = UriTemplate(shape)
    values = {name: {"a": a, "b": b}[name] for name in template.variables}
    if "{+" in shape or "{#" in shape:
        values = {name: value.replace("%", "") or "x" for name, value in values.items()}
    assert template.match(template.expand(values)) == values


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "shape",
    ["x://{a}{b}{c}{d}/end", "x://{+a}v{+b}v{+c}/end", "x://{a,b,c}{d,e}/end", "x://{;a}{;b}{;c}/end"],
)
@pytest.mark.parametrize("text", ["v", "v,", ";", "?&#"])
@pytest.mark.timeout(10)
def test_a_long_uri_is_not_tried_in_every_way(shape: str, text: str) -> None:
    assert UriTemplate(shape).match(("x://" + text * MAX_URI_LENGTH)[:MAX_URI_LENGTH]) is None


@given(st.text(), st.text())
def test_any_text_is_a_template_or_a_value_error(text: str, uri: str) -> None:
    try:
        template = UriTemplate(text)
    except ValueError:
        return
    template.match(uri)
    assert UriTemplate(text).expand({}) is not None
