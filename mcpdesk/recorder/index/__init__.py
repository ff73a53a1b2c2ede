"""Pairing of frames into exchanges, the filter language, and filtered views."""
