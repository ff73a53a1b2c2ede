"""What mcpdesk costs beside its named peers, measured in the same run. Not collected as tests: nothing here
asserts a time. `python -m tests.bench` prints the table."""
