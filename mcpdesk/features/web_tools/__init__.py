"""Built-in tools that read the web: ReadDocs and WebSearch."""

from __future__ import annotations

from mcpdesk.feature import BuiltinTool, Feature


class WebTools(Feature):
    """The tools `ReadDocs` and `WebSearch`."""

    builtin_tools = {
        "ReadDocs": BuiltinTool(
            "mcpdesk.features.web_tools.docs",
            {"bs4": "beautifulsoup4", "markdownify": "markdownify"},
            ("read_private_urls",),
        ),
        "WebSearch": BuiltinTool(
            "mcpdesk.features.web_tools.search",
            settings=("search_engines", "search_urls", "search_timeout_ms"),
        ),
    }


FEATURE = WebTools()
