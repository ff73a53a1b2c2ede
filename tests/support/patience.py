"""How long tests wait for what has to happen. Only failures take that long, and a busy machine needs some."""

WITHIN_S = 40.0
