"""API keys on several engines of one Postgres: the first key once, new keys at once, revoked keys nowhere after 5 s."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.api.support import Http, Listener, Reply, Server, serving, until
from tests.temporary_postgres import create_database


@pytest.fixture
def engines(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    database = asyncio.run(create_database(postgres_server))
    flags = ("--auth-api-key", "--backend", database)
    folder = tmp_path_factory.mktemp("engines")
    with serving(folder, *flags) as one, serving(folder, *flags) as other:
        yield one, other


def get(http: Http, key: str, path: str = "/workflows") -> Reply:
    return http.get(path, Authorization=f"Bearer {key}")


def test_keys_hold_on_every_engine(engines: tuple[Server, Server]):
    one, other = engines[0].http(), engines[1].http()
    with ThreadPoolExecutor(12) as threads:
        made = list(threads.map(lambda n: (one, other)[n % 2].post("/api-keys", {"label": f"k{n}"}), range(12)))
    assert sorted(reply.status for reply in made) == [201, *[401] * 11]
    admin = next(reply.json()["plaintext"] for reply in made if reply.status == 201)
    assert len(get(one, admin, "/api-keys").json()) == 1

    # A label has one key, although many create it at once.
    body = {"label": "ci", "idempotent": True}
    with ThreadPoolExecutor(8) as threads:
        created = list(
            threads.map(
                lambda n: (one, other)[n % 2].post("/api-keys", body, Authorization=f"Bearer {admin}"), range(8)
            )
        )
    assert sorted(reply.status for reply in created) == [*[200] * 7, 201]
    assert len({reply.json()["prefix"] for reply in created}) == 1

    # A new key is accepted by the other engine at once, a revoked one is refused there within 5 s.
    for _ in range(3):
        key = one.post("/api-keys", {"role": "reader"}, Authorization=f"Bearer {admin}").json()
        assert get(other, key["plaintext"]).status == 200
        stream = Listener(engines[1].port, key=key["plaintext"])
        assert one.delete(f"/api-keys/{key['prefix']}", Authorization=f"Bearer {admin}").status == 204
        revoked = time.monotonic()
        assert get(one, key["plaintext"]).status == 401
        until(lambda key=key: get(other, key["plaintext"]).status == 401, 5)
        stream.until(lambda stream=stream: stream.ended, 5 - min(4, time.monotonic() - revoked))
        stream.close()

    # A rotated key goes on beside its successor, on both engines.
    old = one.post("/api-keys", {"label": "w", "role": "reader"}, Authorization=f"Bearer {admin}").json()
    new = other.post(f"/api-keys/{old['prefix']}/rotate", {"overlap_secs": 60}, Authorization=f"Bearer {admin}").json()
    for http in (one, other):
        assert {get(http, key["plaintext"]).status for key in (old, new)} == {200}
    until(lambda: all(key["last_used_at"] for key in get(one, admin, "/api-keys").json() if key["label"] == "w"))
