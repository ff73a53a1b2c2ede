"""Exchanges as text, JSON Lines, Markdown and HAR."""
