"""Persistent state of a server: one SQLite file, with a module for each group of tables."""
