"""What a retry needs read beside its run: histories that are copied, and how the run's children have ended."""

import contextlib
from collections import deque
from collections.abc import Sequence

from msgspec.structs import replace

from assay.core.errors import Invalid
from assay.core.events import Recorded
from assay.core.ids import RunId, WorkflowId
from assay.core.limits import LIMITS
from assay.core.policies import ParentClose
from assay.core.requests import RetryFailed
from assay.core.rules.children import address
from assay.core.rules.cut import concerned_children, cut_by, cut_of, is_end_by, refusal_of
from assay.core.run import Run
from assay.storage.store import Store


async def with_histories(request: RetryFailed, run: Run, store: Store) -> tuple[RetryFailed, Sequence[Run]]:
    """Return the request with all that its decision needs, and the newest runs of the children it may reopen.

    The decision works out anew which children are reopened: it finds here what it asks for, and asks again if not.
    """
    if refusal_of(run) is not None:
        return request, ()
    tree = _Tree(store)
    history = await tree.read(run)
    with contextlib.suppress(Invalid):  # the decision refuses a cut that is none, and needs no more for that
        await tree.descend(run, cut_of(run.status, history, request.from_seq))
    read = replace(request, histories=tree.histories, named=tuple(tree.names), complete=tree.complete)
    return read, tree.children


class _Tree:
    """The histories of a run and of those below it that its end has ended."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.histories: dict[RunId, Sequence[Recorded]] = {}
        self.names: dict[WorkflowId, None] = {}
        self.children: list[Run] = []
        self.complete = True

    async def descend(self, root: Run, cut: int) -> None:
        """Read what there is below a run, level by level, as far as one request may reach."""
        waiting = deque([(root, cut)])
        reached = 0
        while waiting:
            if reached > LIMITS.reopened_children:
                self.complete = False
                return
            parent, place = waiting.popleft()
            names = concerned_children(self.histories[parent.run_id], place)
            self.names.update(names)
            found = await self._store.load((), [(parent.namespace, name) for name in names]) if names else ()
            self.children.extend(found)
            for child in found:
                below = await self._cut_of(child, address(parent))
                if below is not None:
                    waiting.append((child, below))
                    reached += 1

    async def _cut_of(self, child: Run, parent: str) -> int | None:
        """Return where a child's history is cut if it may be reopened."""
        link = child.start.parent
        if link is None or (not child.closed and link.close_policy is ParentClose.ABANDON):
            return None
        if child.closed:
            last = await self._store.events(child.run_id, child.last_seq - 1, limit=1)
            if not last or not is_end_by(parent, last[-1].event):
                self.histories[child.run_id] = last
                return None
        return cut_by(parent, await self.read(child))

    async def read(self, run: Run) -> Sequence[Recorded]:
        """Return the whole history of a run."""
        found: list[Recorded] = []
        while page := await self._store.events(run.run_id, found[-1].seq if found else 0):
            found.extend(page)
        self.histories[run.run_id] = found
        return found
