"""Sessions over HTTP: their state, outlets, records and the copies that replicas share."""
