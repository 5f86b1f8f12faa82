"""The flag of a thread that runs workflow code, apart from the guard: defining an activity imports no asyncio."""

import threading
from typing import Final


class WorkflowIOError(RuntimeError):
    """Workflow code did something that only an activity, `ctx.run` or `ctx.side_effect` may do."""


class _Flag(threading.local):
    inside: object = False
    """The workflow loop whose turn this thread executes; False while the thread executes other code."""
    before_collection: object = False


FLAG: Final = _Flag()
"""`inside` is True while this thread runs workflow code."""
