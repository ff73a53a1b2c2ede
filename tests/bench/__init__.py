"""What mcpdesk costs beside its named peers, measured in the same run; `python -m tests.bench` prints it.

The tests here see to it that every load is understood and told; none of them asserts a time."""
