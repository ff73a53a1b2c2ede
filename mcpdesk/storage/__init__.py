"""What a server keeps between runs: one SQLite file, a module for each family of tables."""
