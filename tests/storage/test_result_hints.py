"""A caller that waits for a run at one engine learns at once that another engine has closed it."""

import asyncio

import pytest

from assay.core.model.ids import RunId, WorkflowId
from assay.core.model.requests import StartWorkflow, Terminate
from assay.engine import engine as module
from assay.engine.engine import Engine
from assay.storage.postgres import notify
from assay.storage.postgres.notify import Hints
from tests.core.support import MAIN
from tests.storage.support import Stores


def start(name: str) -> StartWorkflow:
    return StartWorkflow(namespace=MAIN, workflow_id=WorkflowId(name), workflow_type="T")


@pytest.mark.parametrize("named", [200, 0], ids=["a few runs", "more runs than a hint names"])
async def test_an_end_is_hinted_between_engines(engines: Stores, monkeypatch: pytest.MonkeyPatch, named: int):
    monkeypatch.setattr(module, "RESULT_POLL_SECONDS", 60.0)  # so that only a hint can be the reason
    monkeypatch.setattr(notify, "MAX_NAMED_RUNS", named)
    first, second = Engine(engines.make()), Engine(engines.make())
    try:
        await first.start()
        await second.start()
        key = (await first.submit(start("a"))).key
        waiting = asyncio.create_task(first.wait_closed(key))
        await asyncio.sleep(0)
        await second.submit(Terminate(MAIN, WorkflowId("a")))
        closed, _ = await asyncio.wait_for(waiting, 10)
        assert closed == key
    finally:
        await second.stop()
        await first.stop()


def test_a_hint_names_work_and_runs():
    received: list[object] = []
    hints = Hints("postgres://nowhere")
    hints._wakes.append(lambda: received.append("work"))
    hints._on_closed.append(received.append)
    for payload in (
        notify._encode(work=True, closed=()),
        notify._encode(work=False, closed=(RunId("a"), RunId("b"))),
        notify._encode(work=True, closed=[RunId(str(number)) for number in range(1_000)]),
        "w",
    ):
        assert len(payload) < 8_000
        hints._receive(None, -1, notify.CHANNEL, payload)
    assert received == ["work", ["a", "b"], "work", None, "work"]
