"""Threads for hosted code, and code that still runs after its call."""
