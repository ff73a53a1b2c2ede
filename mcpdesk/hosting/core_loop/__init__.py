"""Event loop of a core: its thread, its turns, and code that blocks it."""
