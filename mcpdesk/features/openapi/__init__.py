"""Server folders generated from descriptions of HTTP services: OpenAPI 3.0 and 3.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcpdesk.feature import Feature

if TYPE_CHECKING:
    from mcpdesk.feature import FolderSource


class OpenApi(Feature):
    """The options `--from-openapi`, `--tags` and `--operations` of `mcpdesk new`."""

    def folder_sources(self) -> Sequence[FolderSource]:
        """Return one source: an OpenAPI document."""
        from mcpdesk.features.openapi.openapi_option import OPENAPI_DOCUMENT

        return [OPENAPI_DOCUMENT]


FEATURE = OpenApi()
