"""Dashboard in a browser: its page, the stream of updates, and the sign-in."""
