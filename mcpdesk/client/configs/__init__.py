"""Configuration files of MCP clients: their formats, their entries and the variables in them."""
