"""Client for MCP servers of every revision and transport.

`ServerConnection` communicates with one server over a `ClientTransport`. `flows` has the steps of a request
(pages, questions, tasks), and `negotiation` the agreement on a revision.
"""
