"""The queries of a run, evaluated together after each turn; their answers are the run's snapshot."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from assay.core.model.commands import RecordSnapshot
from assay.core.model.errors import Invalid
from assay.core.model.payload import PAYLOAD_LIMIT, Payload
from assay.sdk.values.converter import Converter

log = logging.getLogger("assay.worker")


class Queries(dict[str, Callable[[], Any]]):
    """Registered query functions by name, and the last recorded snapshot."""

    def __init__(self, workflow_id: str, converter: Converter) -> None:
        super().__init__()
        self._workflow_id = workflow_id
        self._converter = converter
        self._last = b""
        self._failed: set[str] = set()
        """Queries whose failure has been logged: once each."""

    def snapshot(self, *, replaying: bool) -> RecordSnapshot | None:
        """Return the command that records the answers; None if they are unchanged, or on replay."""
        state: dict[str, msgspec.Raw] = {}
        for name, query in self.items():
            try:
                state[name] = msgspec.Raw(self._answer(name, query))
            except BaseException as error:  # noqa: BLE001  # left out: a failing query must not fail its run
                self._leave_out(name, error)
        raw = msgspec.json.encode(state)
        while len(raw) > PAYLOAD_LIMIT:
            self._leave_out(
                state.popitem()[0], Invalid("the answers of all queries together exceed the limit of a payload")
            )
            raw = msgspec.json.encode(state)
        changed, self._last = raw != self._last and not replaying, raw
        return RecordSnapshot(Payload(raw)) if changed else None

    def _answer(self, name: str, query: Callable[[], Any]) -> bytes:
        value = query()
        try:
            return self._converter.encode(value, name=name)
        finally:
            if asyncio.iscoroutine(value):
                value.close()  # prevents the warning of an unawaited coroutine

    def _leave_out(self, name: str, error: BaseException) -> None:
        if name not in self._failed:
            self._failed.add(name)
            log.warning("query '%s' of workflow %s has no answer: %r", name, self._workflow_id, error)
