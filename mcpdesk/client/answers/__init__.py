"""Answers of servers: which request each is for, and what is wrong with it."""
