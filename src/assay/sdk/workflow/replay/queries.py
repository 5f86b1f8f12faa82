"""The queries of a run, answered together after each turn; the answers are its snapshot."""

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
    """The registered query functions by name, and the snapshot that was recorded last."""

    def __init__(self, workflow_id: str, converter: Converter) -> None:
        super().__init__()
        self._workflow_id = workflow_id
        self._converter = converter
        self._last = b""
        self._failed: set[str] = set()
        """Queries whose failure was logged; each is logged once."""

    def snapshot(self, *, replaying: bool) -> RecordSnapshot | None:
        """Return the command that records the answers, or None if they are the ones recorded last, or on replay."""
        state: dict[str, msgspec.Raw] = {}
        for name, query in self.items():
            try:
                state[name] = msgspec.Raw(self._answer(name, query))
            except BaseException as error:  # noqa: BLE001  # left out: looking at a run must not change how it ends
                self._leave_out(name, error)
        raw = msgspec.json.encode(state)
        while len(raw) > PAYLOAD_LIMIT:
            self._leave_out(state.popitem()[0], Invalid("with those before it, it is more than a payload can hold"))
            raw = msgspec.json.encode(state)
        changed, self._last = raw != self._last and not replaying, raw
        return RecordSnapshot(Payload(raw)) if changed else None

    def _answer(self, name: str, query: Callable[[], Any]) -> bytes:
        value = query()
        try:
            return self._converter.encode(value, name=name)
        finally:
            if asyncio.iscoroutine(value):
                value.close()  # otherwise it warns that it was never awaited

    def _leave_out(self, name: str, error: BaseException) -> None:
        if name not in self._failed:
            self._failed.add(name)
            log.warning("query '%s' of workflow %s has no answer: %r", name, self._workflow_id, error)
