"""Credentials and permissions: API keys, JSON Web Tokens, roles, browser sessions. The only I/O fetches key sets."""
