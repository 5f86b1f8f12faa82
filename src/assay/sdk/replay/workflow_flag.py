"""The flag of a thread that runs workflow code, apart from the guard: defining an activity imports no asyncio."""

import threading
from typing import Final


class WorkflowIOError(RuntimeError):
    """Workflow code did something that only an activity, `ctx.run` or `ctx.side_effect` may do."""


class _Flag(threading.local):
    inside: bool = False
    before_collection: bool = False


FLAG: Final = _Flag()
"""`inside` is True while this thread runs workflow code."""
