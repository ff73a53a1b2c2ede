"""Several cores in one front end: find them, connect to them, and merge their views."""
