"""Sessions over HTTP: their state, outlets, and records."""
