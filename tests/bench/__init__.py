"""Cost of mcpdesk compared with its named peers in the same run; `python -m tests.bench` prints it.

The tests here check that every load is interpreted and printed correctly; none of them asserts a time.
"""
