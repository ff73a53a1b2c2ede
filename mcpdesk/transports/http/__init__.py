"""HTTP transports: Streamable HTTP, WebSocket, HTTP+SSE, jobs and the dashboard."""
