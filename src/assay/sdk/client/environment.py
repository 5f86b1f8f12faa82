"""The credential that a client sends: the caller's own token, or a key named by the environment."""

import os
from collections.abc import Mapping
from pathlib import Path

from assay.core.model.errors import Invalid


def find_credential(token: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the credential of a client.

    Args:
        token: The token that the program passed; nothing else counts then.
        environment: `ASSAY_API_KEY_FILE` names a file with a key and comes before `ASSAY_API_KEY`, the key itself.

    Returns:
        The credential, or None if there is none.

    Raises:
        Invalid: The file cannot be read.
    """
    if token is not None:
        return token
    file = environment.get("ASSAY_API_KEY_FILE")
    if not file:
        return environment.get("ASSAY_API_KEY") or None
    try:
        return Path(file).expanduser().read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"the API key file {file} cannot be read: {error}", field="ASSAY_API_KEY_FILE") from None
