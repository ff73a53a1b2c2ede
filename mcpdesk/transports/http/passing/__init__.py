"""Requests of clients that are forwarded to an upstream server, and the responses."""
