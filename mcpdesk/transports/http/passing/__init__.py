"""Requests of clients that pass through the desk to an upstream server, and the answers to them."""
