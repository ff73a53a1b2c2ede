"""Forwarding of requests to an upstream server, and of its responses to clients."""
