"""MCPB bundles of server folders."""
