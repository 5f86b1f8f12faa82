import contextlib
import resource
import socket
import time

import pytest

from assay.server.client_limits import connections_within
from tests.api.support import Http, Server, fresh, until
from tests.server.impatient import SHORT_LIMITS
from tests.server.raw_clients import SOON, connected, one_answer, rest, status

HEALTH = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n"
START = b"POST /api/v1/workflows HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def drip(client: socket.socket, piece: bytes, pause: float = 0.05) -> float:
    """Send `piece` again and again until the engine hangs up; how many seconds it bore that."""
    began = time.monotonic()
    client.settimeout(pause)
    while time.monotonic() - began < SOON:
        try:
            client.sendall(piece)
            if client.recv(1, socket.MSG_PEEK) != b"":
                break  # it has something to say
            break
        except TimeoutError:
            continue
        except ConnectionError:
            break
    client.settimeout(SOON)
    return time.monotonic() - began


def test_headers_that_trickle_in_are_not_waited_for(server: Server):
    with connected(server, HEALTH + b"X-Slow: ") as client:
        assert drip(client, b"a") < SOON
        answer = rest(client)
    assert status(answer) == 408
    assert b'"code":"request_timeout"' in answer
    assert b"connection: close" in answer


def test_a_connection_on_which_nothing_comes_is_ended(server: Server):
    with connected(server) as client:
        assert status(rest(client)) == 408


def test_blank_lines_between_requests_keep_no_connection_alive(server: Server):
    with connected(server, HEALTH + b"\r\n") as client:
        assert status(one_answer(client)) == 200
        assert drip(client, b"\r\n") < SOON
        assert status(rest(client)) == 408


def test_a_body_that_trickles_in_is_not_waited_for(server: Server, http: Http):
    name = fresh()
    with connected(server, START + b'Content-Length: 5000\r\n\r\n{"workflow_type": "Order", ') as client:
        assert drip(client, b" ") < SOON
        assert status(rest(client)) == 408
    assert http.get(f"/workflows/{name}").status == 404


@pytest.mark.quiet
def test_a_body_that_keeps_its_pace_may_take_longer_than_a_small_one(server: Server):
    body = b'{"workflow_type": "Order", "input": "' + b"a" * 40_000 + b'"}'
    with connected(server, START + b"Content-Length: %d\r\n\r\n" % len(body)) as client:
        began = time.monotonic()
        for at in range(0, len(body), 2_000):
            client.sendall(body[at : at + 2_000])
            until(lambda at=at: time.monotonic() - began > at / 12_000)
        assert time.monotonic() - began > SHORT_LIMITS.body_seconds
        assert status(one_answer(client)) == 201


def test_half_a_request_changes_nothing(server: Server, http: Http):
    """An empty body means something; one that never came does not."""
    name = http.start()["workflow_id"]
    terminate = f"POST /api/v1/workflows/{name}/terminate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n"
    with connected(server, terminate.encode()):
        pass
    assert http.get("/health").status == 200
    assert http.describe(name)["status"] == "PENDING"


def test_headers_without_end_are_refused_as_they_come(server: Server):
    with connected(server, HEALTH + b"X-Large: ") as client:
        with contextlib.suppress(ConnectionError):
            for _ in range(64):
                client.sendall(b"a" * 1_024)
        assert status(rest(client)) == 431


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        (HEALTH + b"X-Large: " + b"a" * 65_536 + b"\r\n\r\n", 431),
        (b"GET /api/v1/health?" + b"a" * 9_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
        (START + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (START + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
        (b"GET /api/v1/health HTTP/1.1\nHost: localhost\n\n", 400),
        (HEALTH + b"X: a\nY: b\r\n\r\n", 400),
        (HEALTH + b"Host: localhost\r\n\r\n", 421),
        (b"\x16\x03\x01 no HTTP at all\r\n\r\n", 400),
        (START + b"Content-Length: 100000000\r\n\r\n", 413),
        (START + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\naaaa", 415),
    ],
)
def test_what_is_too_large_or_ambiguous_is_refused_at_once(server: Server, sent: bytes, wanted: int):
    with connected(server, sent) as client:
        answer = one_answer(client)
    assert status(answer) == wanted
    assert b'"code":' in answer


def test_who_goes_on_sending_after_a_refusal_is_cut_off(server: Server):
    with connected(server, START + b"Content-Length: 1000000000\r\n\r\n") as client:
        assert status(one_answer(client)) == 413
        with pytest.raises(ConnectionError):
            client.sendall(b"a" * 100 * 1024 * 1024)


def test_an_answer_that_nobody_takes_is_dropped(server: Server, http: Http):
    name = http.start(input="a" * 1_900_000)["workflow_id"]
    ask = f"GET /api/v1/workflows/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.settimeout(SOON)
        client.connect(("127.0.0.1", server.port))
        client.sendall(ask * 4)
        until(lambda: _is_gone(client, ask), SOON)


def _is_gone(client: socket.socket, ask: bytes) -> bool:
    try:
        client.send(ask)
    except ConnectionError:
        return True
    return False


@pytest.mark.quiet
def test_a_crowd_of_slow_clients_holds_up_nobody_and_does_not_stay(server: Server, http: Http):
    with contextlib.ExitStack() as crowd:
        clients = [crowd.enter_context(connected(server, HEALTH + b"X-Slow: ")) for _ in range(200)]
        began = time.monotonic()
        waits = []
        for _ in range(50):
            sent_at = time.monotonic()
            assert http.get("/health").status == 200
            waits.append(time.monotonic() - sent_at)
        assert sorted(waits)[45] < 0.1
        for client in clients:
            assert status(rest(client)) == 408
        assert time.monotonic() - began < SOON


def test_there_are_only_so_many_connections(server: Server, http: Http):
    with contextlib.ExitStack() as crowd:
        clients = [crowd.enter_context(connected(server)) for _ in range(SHORT_LIMITS.connections + 20)]
        answers = [status(rest(client)) for client in clients]
    assert answers.count(503) >= 20
    assert answers.count(408) >= SHORT_LIMITS.connections // 2
    until(lambda: http.get("/health").status == 200, SOON)


def test_no_more_connections_are_allowed_than_files_can_be_open():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert connections_within(100) == 100
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        assert connections_within(1_000_000_000) <= hard
        assert connections_within(50) == 50
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
