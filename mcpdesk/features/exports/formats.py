"""Tables of the formats for files, and of the texts for the clipboard."""

from __future__ import annotations

from mcpdesk.feature import ExchangeCopy, ExchangeFacts, Exporter, MenuLine
from mcpdesk.features.exports import curl_command
from mcpdesk.features.exports.http_archive import har, sent_over_http
from mcpdesk.features.exports.json_export import as_json, json_lines
from mcpdesk.features.exports.markdown_report import as_markdown, report
from mcpdesk.recorder.index.traffic_index import Index

EXPORTERS = (
    Exporter(
        "md",
        ".md",
        MenuLine("Markdown report", "to read", "m"),
        report,
        menu_of_one=MenuLine("Markdown", "with its log", "r"),
    ),
    Exporter("jsonl", "-exchanges.jsonl", MenuLine("JSON Lines", "for programs", "j"), json_lines),
    Exporter(
        "har",
        ".har",
        MenuLine("HTTP archive", "for browser tools", "h"),
        lambda index, numbers, _: har(index, numbers),
        requests=sent_over_http,
    ),
)


def _markdown(index: Index, number: int, facts: ExchangeFacts) -> str:
    return as_markdown(index, number, facts.log_lines_of)


def _json(index: Index, number: int, facts: ExchangeFacts) -> str:
    return as_json(index, number, facts.log_lines_of)


def _curl(index: Index, number: int, facts: ExchangeFacts) -> str:
    return curl_command.curl(index, number, facts.url, facts.headers, facts.schema)


COPIES = (
    ExchangeCopy(MenuLine("Markdown", "with headings, for an issue", "r"), _markdown),
    ExchangeCopy(MenuLine("JSON", "all data of the exchange", "j"), _json),
    ExchangeCopy(MenuLine("curl", "its request, to run again", "c"), _curl, is_command=True),
)
