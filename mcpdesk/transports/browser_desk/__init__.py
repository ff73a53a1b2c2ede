"""Desk in a browser: pages with a terminal each."""
