"""A link shows where it leads, and nothing of it reaches the terminal as a command."""

from __future__ import annotations

import pytest

from mcpdesk.inbox.question import oddities
from mcpdesk.tui.forms.question_text import link_text


def emphasised(link: str) -> list[str]:
    shown = link_text(link)
    return [shown.plain[span.start : span.end] for span in shown.spans]


@pytest.mark.parametrize(
    ("link", "host"),
    [
        ("https://example.org/in?next=https://other.org/", "example.org"),
        ("https://example.org@evil.org:8080/in", "evil.org:8080"),
        ("https://[::1]:80/", "[::1]:80"),
    ],
)
def test_the_host_stands_out_in_the_whole_link(link: str, host: str) -> None:
    assert link_text(link).plain == link
    assert emphasised(link) == [host]


def test_no_host_stands_out_in_other_links_and_controls_are_shown() -> None:
    assert emphasised("javascript:alert(1)") == []
    assert link_text("https://example.org/\x1b[31m\n").plain == "https://example.org/␛[31m⏎"


@pytest.mark.parametrize(
    ("link", "told"),
    [
        ("https://example.org/", []),
        ("http://localhost:3000/", []),
        ("http://example.org/", ["read along"]),
        ("https://xn--e1afmkfd.org/", ["look like others"]),
        ("https://exаmple.org/", ["look like others"]),
        ("https://bank.org@evil.org/", ["no host"]),
        ("file:///etc/passwd", ["not a link of the web"]),
    ],
)
def test_what_is_odd_is_said(link: str, told: list[str]) -> None:
    said = list(oddities(link))
    assert len(said) == len(told) and all(part in one for part, one in zip(told, said, strict=True))
