"""Credentials and permissions: API keys, JSON Web Tokens, roles, browser sessions. No I/O but the fetch of key sets."""
