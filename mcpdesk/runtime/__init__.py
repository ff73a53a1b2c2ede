"""A core as a process: output, journal on stderr, end, socket for screens, and the core of one client."""
