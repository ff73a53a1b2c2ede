"""How long tests wait for what has to happen. Only failures take that long; a busy machine needs some of it."""

WITHIN_S = 20.0
