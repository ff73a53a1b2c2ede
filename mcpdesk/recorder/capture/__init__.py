"""Recording frames: kept in memory, encoded as lines, written to the capture file."""
