"""WebSearch: many engines asked at once, their answers joined into one list."""
