"""The programs mcpdesk is compared with, each started as a process of its own."""
