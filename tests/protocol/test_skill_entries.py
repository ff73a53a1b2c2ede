"""Requirements of a skill's entry on its files."""

from __future__ import annotations

import pytest

from mcpdesk.protocol.catalogue.skill_entries import content_fault, digest_of

MAIN = "skill://a/SKILL.md"


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ("name: a\nversion: 1", ""),
        ("name: a\nversion: '1'", "its front matter says version: '1', and its entry version: '1'"),
        ("name: a\nversion: true", "its front matter says version: 'True', and its entry version: '1'"),
        ("name: a", "its front matter says no version, and its entry version: '1'"),
        ("name: a\nversion: 1\nhooks: x", "its front matter says hooks: 'x', and its entry no hooks"),
        ("name: &a a\nversion: 1", "the front matter cannot be read: it uses a YAML alias (& or *)"),
    ],
)
def test_front_matter_is_compared_field_by_field(fields: str, fault: str) -> None:
    data = f"---\n{fields}\n---\n".encode()
    listed = {"uri": MAIN, "size": len(data), "digest": digest_of(data)}
    assert content_fault(data, listed, {"name": "a", "version": 1}) == fault
    assert content_fault(data, listed, None) == ""
