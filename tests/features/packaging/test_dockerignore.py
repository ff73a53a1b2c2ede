"""Private files of a folder go neither into a bundle nor to the builder of an image."""

from __future__ import annotations

from fnmatch import fnmatch

from mcpdesk.features.packaging.bundle import PRIVATE_ENDINGS, PRIVATE_NAMES
from tests.support.dockerfile import PATH


def test_secrets_do_not_go_to_the_builder() -> None:
    ignored = PATH.with_name("Dockerfile.dockerignore").read_text().splitlines()
    patterns = [line.replace("**/", "*/") for line in ignored if line.startswith("server/**/")]
    for name in (*PRIVATE_NAMES, *(f"x{ending}" for ending in PRIVATE_ENDINGS), ".env", "__pycache__"):
        assert any(fnmatch(f"server/deep/{name}", pattern) for pattern in patterns), name
