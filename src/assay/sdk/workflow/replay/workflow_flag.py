"""The thread-local flag of workflow code; separate from the guard, so that defining an activity imports no asyncio."""

import threading
from typing import Final


class WorkflowIOError(RuntimeError):
    """Workflow code made a call that is allowed only in an activity, `ctx.run` or `ctx.side_effect`."""


class _Flag(threading.local):
    inside: object = False
    """The workflow loop whose turn this thread executes; False while the thread executes other code."""
    before_collection: object = False


FLAG: Final = _Flag()
"""The flag of this thread: `inside` is true while it runs workflow code."""
