"""The requester of a change, for requests that must name one when the caller did not."""

import getpass
import socket


def requester() -> str:
    """Return the user and the host of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in some containers
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
