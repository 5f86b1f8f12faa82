"""Limits of callers: wrong credentials, requests a second, event streams."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from assay.api.call import ApiCall
from assay.api.request_rates import RequestRates, TooManyRequests
from assay.api.stream import StreamSlots, TooManyStreams
from assay.auth.permissions import Principal
from assay.core.model.ids import SECOND
from tests.api.support import Http, Listener, serving


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_wrong_credentials_are_limited_and_right_ones_never(tmp_path: Path):
    with serving(tmp_path, "--auth-api-key") as server:
        http = server.http()
        key = http.post("/api-keys", {}).json()["plaintext"]
        wrong = [http.get("/workflows", **bearer("wrong")) for _ in range(320)]
        assert {reply.status for reply in wrong[:300]} == {401}
        assert wrong[-1].status == 429
        assert wrong[-1].json()["code"] == "too_many_attempts"
        assert int(wrong[-1].headers["retry-after"]) >= 1
        assert http.get("/workflows", **bearer(key)).status == 200
        assert http.get("/workflows").status == 401  # a request without a credential is no attempt


def test_keys_of_one_prefix_are_limited_wherever_they_come_from(tmp_path: Path):
    with serving(tmp_path, "--auth-api-key", "--trusted-proxy", "127.0.0.1") as server:
        http = server.http()
        key = http.post("/api-keys", {}).json()["plaintext"]

        def tried(n: int) -> int:
            other = key[:14] + f"{n:056x}"
            return http.get("/workflows", **bearer(other), X_Forwarded_For=f"203.0.113.{n % 250}").status

        with ThreadPoolExecutor(40) as threads:
            statuses = list(threads.map(tried, range(1, 361)))
        assert statuses.count(401) >= 300
        assert statuses.count(429) >= 20
        assert http.get("/workflows", **bearer(key)).status == 200


def test_requests_of_a_credential_are_limited_on_demand(tmp_path: Path):
    with serving(tmp_path, "--auth-api-key", "--rate-limit", "5") as server:
        http = server.http()
        key = http.post("/api-keys", {}).json()["plaintext"]
        with ThreadPoolExecutor(8) as threads:
            replies = list(threads.map(lambda _: http.get("/workflows", **bearer(key)), range(40)))
        refused = [reply for reply in replies if reply.status == 429]
        assert len(refused) >= 20
        assert {reply.json()["code"] for reply in refused} == {"too_many_requests"}
        assert refused[0].headers["retry-after"] == "1"
        assert all(http.get("/health").status == 200 for _ in range(20))


class _Caller(ApiCall):
    def __init__(self, principal: Principal) -> None:
        self.principal = principal
        self.forwarded = None
        self.scope = {"client": ("192.0.2.1", 1)}


def test_each_caller_has_a_rate_of_its_own():
    rates = RequestRates(2)
    ada, bob, nobody = (_Caller(Principal(name, name and "jwt", {})) for name in ("ada", "bob", None))
    for caller in (ada, bob, nobody):
        rates.check(caller, 0)
        rates.check(caller, 0)
        with pytest.raises(TooManyRequests):
            rates.check(caller, 0)
        rates.check(caller, SECOND // 2)
        with pytest.raises(TooManyRequests):
            rates.check(caller, SECOND // 2)


def test_a_browser_session_is_a_caller_of_its_own():
    key = Principal("ci", "assay_12345678...", {})
    session = Principal("ci", "assay_12345678...", {}, session="abc")
    assert len({key.identity, session.identity, Principal("ada", "jwt", {}).identity}) == 3
    slots = StreamSlots(100, 2)
    for _ in range(2):
        slots.reserve(key.identity)
    slots.reserve(session.identity)
    with pytest.raises(TooManyStreams):
        slots.reserve(key.identity)
    slots.release(key.identity)
    slots.reserve(key.identity)
    slots.reserve(None)
    assert len(slots) == 4


def test_streams_of_a_credential_are_limited(tmp_path: Path):
    with serving(tmp_path, "--auth-api-key") as server:
        http: Http = server.http()
        first = http.post("/api-keys", {}).json()["plaintext"]
        second = http.post("/api-keys", {}, **bearer(first)).json()["plaintext"]
        opened = [Listener(server.port, key=first) for _ in range(20)]
        try:
            refused = Listener(server.port, key=first)
            assert (refused.status, refused.headers["retry-after"]) == (429, "1")
            refused.close()
            opened.append(Listener(server.port, key=second))
            assert opened[-1].status == 200
        finally:
            for stream in opened:
                stream.close()
