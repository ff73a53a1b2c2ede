"""Metrics of `/metrics`, the dashboard and collectors."""
