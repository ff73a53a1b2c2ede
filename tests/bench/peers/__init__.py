"""The programs mcpdesk is compared with, each started as a separate process."""
