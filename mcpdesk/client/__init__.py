"""The client of MCP servers: every revision, over memory and HTTP.

`ServerConnection` speaks with one server over a `ClientTransport`. The steps of a request (pages, questions,
tasks) are in `flows`, and the agreement on a revision in `negotiation`: both do no input or output.
"""
