"""Browser dashboard: its page, the stream that updates it, and sign-in."""
