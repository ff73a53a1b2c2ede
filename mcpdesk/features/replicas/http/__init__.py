"""HTTP between replicas: forwarded requests, and sessions that all replicas serve."""
