"""Limit the number of waiting requests per namespace. Requests above the limit are rejected with a 429."""

from collections import Counter
from types import TracebackType
from typing import Final

from assay.core.model.errors import AssayError, Kind

MAX_WAITING_REQUESTS: Final = 1_000
"""Requests of one namespace that are accepted and not answered yet, including the current batch."""


class NamespaceBusy(AssayError):
    """Too many requests of a namespace wait. Nothing was changed, and the same request may succeed a second later."""

    code = "namespace_busy"
    kind = Kind.RATE_LIMITED


class Admission:
    """The number of waiting requests per namespace. Workers, and callers that wait for a result, do not count."""

    def __init__(self, most: int = MAX_WAITING_REQUESTS) -> None:
        self._most = most
        self._waiting: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._waiting.total()

    def admit(self, namespace: str) -> "Admitted":
        """Return a context within which a request counts as waiting; raise `NamespaceBusy` at the limit."""
        if self._waiting[namespace] >= self._most:
            message = (
                f"{self._most:,} requests of namespace '{namespace}' wait already; send this request again in a second"
            )
            raise NamespaceBusy(message)
        return Admitted(self._waiting, namespace)


class Admitted:
    """A request that counts as waiting from entering the context until leaving it."""

    __slots__ = ("_namespace", "_waiting")

    def __init__(self, waiting: Counter[str], namespace: str) -> None:
        self._waiting = waiting
        self._namespace = namespace

    def __enter__(self) -> None:
        self._waiting[self._namespace] += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        left = self._waiting[self._namespace] - 1
        if left:
            self._waiting[self._namespace] = left
        else:
            del self._waiting[self._namespace]  # a namespace that is used once must not take memory for ever
