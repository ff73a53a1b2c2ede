"""HTTP between replicas: forwarded requests, and sessions that all of them serve."""
