"""Published items of a server: their definitions, checks, contract changes and token cost."""
