"""Reads messages of other programs' servers: strictly first, else leniently, with remarks on the faults."""
