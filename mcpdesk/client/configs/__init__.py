"""Configuration files of MCP clients: formats, entries and variables."""
