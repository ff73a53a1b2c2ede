"""Index of recorded frames: exchanges, the filter language, and filtered views."""
