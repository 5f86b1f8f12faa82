"""The client's side of HTTP: requests, connection pool, and the worker's WebSocket."""
