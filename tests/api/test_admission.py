"""A namespace with too many waiting requests is told to come back; others, and workers, are not."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from assay.api import answers
from assay.api.admission import MAX_WAITING_REQUESTS, Admission, NamespaceBusy
from assay.api.mutations import change, report


class SlowEngine:
    """Decides nothing until the test says so."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[object]] = []
        self.callers: list[str | None] = []

    def submit(
        self, _request: object, key: object = None, *, caller: str | None = None, audit: object = None
    ) -> asyncio.Future[object]:
        assert key is None
        self.waiting.append(asyncio.get_running_loop().create_future())
        self.callers.append(caller)
        return self.waiting[-1]


def fixtures() -> tuple[Any, SlowEngine, Any]:
    engine = SlowEngine()
    backend = SimpleNamespace(engine=engine, admission=Admission(most=2), auditor=None)
    return backend, engine, SimpleNamespace(header=lambda name: None)


def test_beyond_the_bound_a_request_is_refused_and_never_reaches_the_engine():
    async def main() -> None:
        backend, engine, call = fixtures()
        accepted = [asyncio.create_task(change(backend, call, "a", Any)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(NamespaceBusy, match="namespace 'a'"):
            await change(backend, call, "a", Any)
        accepted.append(asyncio.create_task(change(backend, call, "b", Any)))
        accepted += [asyncio.create_task(report(backend, call, "a", Any)) for _ in range(5)]
        await asyncio.sleep(0)
        assert engine.callers == ["a", "a", "b", None, None, None, None, None]
        for waiting in engine.waiting:
            waiting.set_result(None)
        assert [answer.status for answer in await asyncio.gather(*accepted)] == [200] * 8
        assert len(backend.admission) == 0
        again = asyncio.create_task(change(backend, call, "a", Any))
        await asyncio.sleep(0)
        engine.waiting[-1].set_exception(KeyError)
        with pytest.raises(KeyError):
            await again
        assert len(backend.admission) == 0, "a request that fails waits no longer either"

    asyncio.run(main())


def test_the_refusal_names_a_second():
    answer = answers.error(NamespaceBusy("busy"))
    assert (answer.status, dict(answer.head())[b"retry-after"]) == (429, b"1")
    assert b'"code":"namespace_busy"' in answer.body
    assert MAX_WAITING_REQUESTS == 1_000
