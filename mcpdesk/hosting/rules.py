"""The part of the settings that HTTP goes by."""

from __future__ import annotations

from mcpdesk.settings import Settings
from mcpdesk.transports.base import Rules


def rules_of(settings: Settings, key: str) -> Rules:
    """What holds for callers; `key` is asked of them unless it is empty."""
    return Rules(
        api_key=key,
        api_key_header=settings.api_key_header,
        allowed_origins=settings.allowed_origins,
        allowed_hosts=settings.allowed_hosts,
        max_body_bytes=settings.max_body_bytes,
        max_bodies_bytes=settings.max_bodies_bytes,
        session_ttl_s=settings.session_ttl_s,
        request_timeout_s=settings.request_timeout_s,
        max_connections=settings.max_connections,
        max_sessions=settings.max_sessions,
        resume_bytes=settings.resume_bytes,
        enable_mcp=settings.enable_mcp,
        streaming=settings.streaming,
    )
