"""The key of task tokens, shared by all engines of a database."""

import secrets
from typing import Final

from assay.storage.ports import Registry

TOKEN_SECRET_NAME: Final = "task_tokens"  # noqa: S105  # the name of the secret


async def read_token_key(registry: Registry) -> bytes:
    """Return the key that signs task tokens; the first engine of a database creates it."""
    return await registry.secret(TOKEN_SECRET_NAME, secrets.token_bytes(32))
