"""Desk in a browser. Each page has a terminal with one screen."""
