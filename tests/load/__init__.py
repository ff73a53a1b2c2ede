"""Many concurrent connections and jobs, for any time: `python -m tests.load --help`."""
