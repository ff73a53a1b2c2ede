"""Parts of a process that runs a core: output, journal on stderr, termination, socket for screens, and a core
for one client.
"""
