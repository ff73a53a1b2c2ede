"""State shared by several machines through Valkey or Redis. Imports redis-py inside functions only."""
