"""State shared by several machines through Valkey or Redis.

The modules import redis-py only inside functions.
"""
