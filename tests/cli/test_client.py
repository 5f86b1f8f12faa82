import socket

import pytest

from assay._version import __version__
from assay.cli.client import RemoteEngine, RequestRefused, UnreachableError
from tests.cli.support import Cli, Stub


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


def test_what_is_sent(stubbed: Cli, stub: Stub):
    stub.answer({})
    stubbed("workflow", "signal", "a/b c", "ü", '{"x": 1}', "--namespace", "n&m")
    requests = stub.last
    assert requests.method == "POST"
    assert requests.path == "/api/v1/workflows/a%2Fb%20c/signal/%C3%BC?namespace=n%26m"
    assert requests.body == {"payload": {"x": 1}}
    assert requests.headers["content-type"] == "application/json"
    assert requests.headers["user-agent"] == f"assay/{__version__}"


@pytest.mark.parametrize(
    ("arguments", "method", "path", "body"),
    [
        (["workflow", "cancel", "o"], "POST", "/workflows/o/cancel", None),
        (["workflow", "terminate", "o"], "POST", "/workflows/o/terminate", {"reason": None}),
        (["workflow", "signal", "o", "s"], "POST", "/workflows/o/signal/s", {"payload": None}),
        (["workflow", "continue-as-new", "o"], "POST", "/workflows/o/continue-as-new", {"input": None}),
        (["workflow", "start", "--type", "T"], "POST", "/workflows", {
            "namespace": "main", "task_queue": "default", "workflow_type": "T",
        }),
        (["namespace", "create", "n"], "POST", "/namespaces", {"name": "n"}),
        (["namespace", "delete", "n/m"], "DELETE", "/namespaces/n%2Fm", None),
    ],
)  # fmt: skip
def test_what_commands_send(stubbed: Cli, stub: Stub, arguments: list[str], method: str, path: str, body: object):
    assert stubbed(*arguments).code == 0
    assert (stub.last.method, stub.last.path, stub.last.body) == (method, f"/api/v1{path}?namespace=main", body)


def test_an_engine_below_a_path(bare: Cli, stub: Stub):
    bare("queue", "stats", "--engine-url", f"{stub.url}/assay/")
    assert stub.last.path == "/assay/api/v1/queues?namespace=main"


def test_a_refusal(stubbed: Cli, stub: Stub):
    stub.answer(b"no such thing\n", 418)
    result = stubbed("worker", "list")
    assert result == (1, "", "error: worker list: HTTP 418: no such thing\n")


def test_a_refusal_is_one_line_whatever_a_proxy_says(stubbed: Cli, stub: Stub):
    stub.answer(b"<html>\n<body>\r\nBad Gateway</body>\n", 502)
    result = stubbed("worker", "list")
    assert result == (1, "", r"error: worker list: HTTP 502: <html>\n<body>\r\nBad Gateway</body>" + "\n")


def test_a_refusal_by_the_real_engine(cli: Cli):
    result = cli("workflow", "describe", "nobody")
    assert (result.code, result.out) == (1, "")
    assert result.err == "error: workflow describe: HTTP 404: workflow nobody not found\n"


@pytest.mark.parametrize(
    "arguments", [["workflow", "list"], ["workflow", "wait", "o"], ["namespace", "create", "n"], ["schedule", "list"]]
)
def test_nobody_there(bare: Cli, arguments: list[str]):
    url = f"http://127.0.0.1:{free_port()}"
    result = bare(*arguments, "--engine-url", url)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"error: {' '.join(arguments[:2])}: engine unreachable at {url}")


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://x", "http://", "http://x:port", "http://x:0", "nonsense"])
def test_a_url_that_is_none(bare: Cli, url: str):
    result = bare("queue", "stats", "--engine-url", url)
    assert (result.code, result.out) == (1, "")
    assert "must be like http://" in result.err


def test_a_host_that_is_none(bare: Cli):
    assert "engine unreachable" in bare("queue", "stats", "--engine-url", f"http://{'x' * 64}.invalid").err


def test_somebody_else_there(stubbed: Cli, stub: Stub):
    stub.answer(b"<html>hello</html>")
    result = stubbed("queue", "stats")
    assert result.code == 1
    assert "is there an assay engine at" in result.err


def test_one_that_never_answers():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        engine = RemoteEngine(f"http://127.0.0.1:{silent.getsockname()[1]}", None, "main", "test", timeout=0.1)
        with pytest.raises(UnreachableError, match="engine unreachable at"):
            engine.get("queues")


def test_a_line_that_was_dropped_meanwhile(stub: Stub):
    engine = RemoteEngine(stub.url, None, "main", "test")
    engine.get("queues")
    kept = engine._connection
    assert kept is not None
    assert kept.sock is not None
    kept.sock.shutdown(socket.SHUT_RDWR)
    engine.get("queues")
    assert engine._connection is not kept
    engine.close()
    assert len(stub.requests) == 2


def test_a_key_is_read_again_when_it_is_refused(stub: Stub):
    keys = iter(["second", "second"])
    engine = RemoteEngine(stub.url, "first", "main", "test", renew=lambda: next(keys))
    stub.answer({"error": "Invalid API key"}, 401)
    stub.answer([])
    assert engine.get("workflows").document == []
    assert [request.headers["authorization"] for request in stub.requests] == ["Bearer first", "Bearer second"]
    stub.answer({"error": "Invalid API key"}, 401)
    with pytest.raises(RequestRefused):
        engine.get("workflows")
    assert len(stub.requests) == 3
    engine.close()
