"""Table of the optional capabilities in `mcpdesk/features`."""

from __future__ import annotations

FEATURES: dict[str, frozenset[str]] = {
    "apps": frozenset({"client_extensions", "host_parts", "link_parts", "screen_actions", "item_mark"}),
    "browser_desk": frozenset({"require_free_address", "served_pages"}),
    "contract": frozenset({"commands", "agreed_definitions", "result_limits"}),
    "cases": frozenset({"commands", "pytest_plugins", "case_recorder"}),
    "client_bench": frozenset({"commands"}),
    "doctor": frozenset({"commands", "host_parts", "link_parts", "screen_actions"}),
    "dashboard": frozenset({"host_parts", "http_routes", "link_parts", "screen_actions"}),
    "desk_server": frozenset({"core_options", "http_routes"}),
    "gateway": frozenset({"dialect_paths"}),
    "holding": frozenset({"core_options", "interceptor", "link_parts", "screen_actions", "screen_signs"}),
    "load": frozenset({"commands"}),
    "open_connections": frozenset({"commands", "host_parts", "open_connection", "open_connection_names"}),
    "exports": frozenset({"commands", "exporters", "exchange_copies"}),
    "openapi": frozenset({"folder_sources"}),
    "packaging": frozenset({"commands"}),
    "pictures": frozenset({"picture_view"}),
    "program_tools": frozenset({"command_tools"}),
    "replicas": frozenset({"link_to_cores", "link_to_engine", "shared_core", "other_processes"}),
    "tap": frozenset({"commands", "record_relay", "live_captures", "live_link"}),
    "telemetry": frozenset({"host_parts"}),
    "web_tools": frozenset({"builtin_tools"}),
}
"""Features in the order in which they are used. The value contains the members of `Feature` that the feature
overrides.

A feature is imported when one of these members is used. A feature without a folder is left out.
"""
