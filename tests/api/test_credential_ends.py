"""Streams and sockets end with their credential, and keys are the same on three engines under load."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import websockets

from tests.api.browsers import WITHIN_SECONDS, Keyed, stream_of
from tests.api.support import Http, serving
from tests.temporary_postgres import create_database, temporary_postgres

CREDENTIAL_ENDED = 4401


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with serving(tmp_path_factory.mktemp("keyed"), "--auth-api-key") as server:
        yield Keyed(server)


def socket_url(keyed: Keyed) -> str:
    return f"ws://127.0.0.1:{keyed.http.port}/api/v1/workers/w-1/exchange?namespace=main"


@pytest.mark.parametrize("end", ["revocation", "expiry"])
def test_the_socket_of_a_worker_is_closed_with_4401(keyed: Keyed, end: str):
    made = keyed.make(role="worker")
    if end == "expiry":
        made = keyed.make(role="worker", expires_at=float(made["created_at"]) + 3)

    async def scenario() -> int | None:
        headers = {"Authorization": f"Bearer {made['plaintext']}"}
        async with websockets.connect(socket_url(keyed), additional_headers=headers) as socket:
            if end == "revocation":
                assert keyed.call("DELETE", f"/api-keys/{made['prefix']}").status == 204
            async with asyncio.timeout(WITHIN_SECONDS):
                await socket.wait_closed()
            return socket.close_code

    assert asyncio.run(scenario()) == CREDENTIAL_ENDED


def test_sockets_take_no_cookie_and_no_strangers(keyed: Keyed):
    async def status(**headers: str) -> int:
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(socket_url(keyed), additional_headers=headers)
        return refused.value.response.status_code

    browser = keyed.browser()
    assert asyncio.run(status()) == 401
    assert asyncio.run(status(Cookie=browser.cookie)) == 401
    foreign = keyed.make(role="worker", namespaces=["shop"])["plaintext"]
    assert asyncio.run(status(Authorization=f"Bearer {foreign}")) == 404
    reader = keyed.make(role="reader")["plaintext"]
    assert asyncio.run(status(Authorization=f"Bearer {reader}")) == 403


def test_a_stream_ends_when_its_key_expires(keyed: Keyed):
    made = keyed.make(role="reader")
    ends = keyed.make(role="reader", expires_at=float(made["created_at"]) + 2)
    with stream_of(keyed.browser(), "", Authorization=f"Bearer {ends['plaintext']}") as stream:
        assert stream.status == 200
        assert stream.read() == b": connected\n\n"


class Caller(threading.Thread):
    """Calls an engine with one key as fast as it can, and notes the time of each answer."""

    def __init__(self, http: Http, key: str, stop: threading.Event) -> None:
        super().__init__()
        self.answers: list[tuple[float, int]] = []
        self._http, self._headers, self._ended = http, {"Authorization": f"Bearer {key}"}, stop

    def run(self) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            self.answers.append((began, self._http.get("/queues", **self._headers).status))


def test_keys_are_rotated_and_revoked_under_load_on_three_engines(tmp_path_factory: pytest.TempPathFactory):
    with temporary_postgres() as dsn:
        database = asyncio.run(create_database(dsn))
        flags = ("--auth-api-key", "--backend", database)
        first, second, third = (tmp_path_factory.mktemp(name) for name in ("one", "two", "three"))
        with serving(first, *flags) as one, serving(second, *flags) as two, serving(third, *flags) as three:
            keyed, servers = Keyed(one), (one, two, three)
            old = keyed.make(role="operator")
            stop = threading.Event()
            with_old = [Caller(server.http(), old["plaintext"], stop) for server in servers]
            for caller in with_old:
                caller.start()
            rotated: dict[str, Any] = keyed.call(
                "POST", f"/api-keys/{old['prefix']}/rotate", {"overlap_secs": 60}
            ).json()
            with_new = [Caller(server.http(), rotated["plaintext"], stop) for server in servers]
            for caller in with_new:
                caller.start()
            threading.Event().wait(1)  # the load goes on while both keys are valid
            revoked_at = time.monotonic()
            assert keyed.call("DELETE", f"/api-keys/{old['prefix']}").status == 204
            threading.Event().wait(WITHIN_SECONDS + 1)
            stop.set()
            for caller in (*with_old, *with_new):
                caller.join()
            assert [status for caller in with_new for _, status in caller.answers if status != 200] == []
            late = [at - revoked_at for caller in with_old for at, status in caller.answers if status == 200]
            assert max(late) < WITHIN_SECONDS
            for caller in with_old:
                assert caller.answers[0][1] == 200
                assert caller.answers[-1][1] in (401, 429)
