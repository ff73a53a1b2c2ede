"""Server folders generated from descriptions of HTTP services: OpenAPI 3.0 and 3.1."""
