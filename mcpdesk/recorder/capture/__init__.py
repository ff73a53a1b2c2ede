"""Recording of frames: in memory, as encoded lines, and in the capture file."""
