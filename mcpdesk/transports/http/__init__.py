"""HTTP and what is spoken over it."""
