"""`mcpdesk check`: the command, the lock of a contract, and reports for CI."""
