"""Frames paired into exchanges, the filter language, and views of them."""
