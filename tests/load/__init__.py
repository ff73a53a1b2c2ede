"""Many connections and jobs at once, for as long as one likes: `python -m tests.load --help`."""
