"""Matching of servers' answers to requests, and detection of their faults."""
