"""The dashboard in a browser: its page, the stream that keeps it up to date, and who may see it."""
