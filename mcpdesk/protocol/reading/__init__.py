"""Reading messages of other people's servers: strictly first, leniently where that fails, with remarks."""
