"""Icons that clients will take."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.protocol.icons import check_icons


def test_pictures_of_the_web_and_inline_pass() -> None:
    check_icons(
        [{"src": "https://example.org/i.png", "theme": "dark"}, {"src": "data:image/png;base64,AA=="}]
    )


@pytest.mark.requirement("6.15")
@pytest.mark.parametrize(
    ("icon", "complaint"),
    [
        ({"src": "javascript:alert(1)"}, "javascript"),
        ({"src": "file:///etc/passwd"}, "file:"),
        ({"src": "icons/i.png"}, r"icons/i\.png"),
        ({}, "None"),
        ({"src": "https://a.b/c", "mimeType": 5}, "mimeType is a text, not '5'"),
        ({"src": "https://a.b/c", "sizes": "48x48"}, "sizes is a list .* not '48x48'"),
        ({"src": "https://a.b/c", "sizes": [48]}, "sizes is a list"),
        ({"src": "https://a.b/c", "theme": "pink"}, "light or dark, not 'pink'"),
    ],
)
def test_what_clients_refuse_is_named(icon: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_icons([icon])
