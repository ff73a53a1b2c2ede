"""Data that a core stores for the next process: its jobs, and the key of its rounds."""
