"""Clients, workers and the command line over https; certificates that change while the server runs."""

import asyncio
import http.client
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509

import assay
from tests.api.support import PREFIX, Server, serving, until
from tests.certificates import write_certificate

SECONDS = 30

app = assay.App()


@app.workflow
async def Greet(ctx: assay.Context, name: str) -> str:
    return f"Hello, {name}!"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write_certificate(tmp_path)


@pytest.fixture
def server(tmp_path: Path, files: tuple[Path, Path]) -> Iterator[Server]:
    with serving(tmp_path, "--tls-cert", str(files[0]), "--tls-key", str(files[1])) as server:
        yield server


def serial(server: Server) -> int:
    """The number of the certificate that a new connection gets."""
    pem = ssl.get_server_certificate(("127.0.0.1", server.port), timeout=10)
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


def test_the_sdk_and_the_command_line_over_https(
    server: Server, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
):
    url = f"https://127.0.0.1:{server.port}"
    assert any(f"{url}/api/v1" in line for line in server.greeting)

    async def scenario() -> str:
        async with await assay.Client.connect(url, app=app) as client, assay.Worker(client):
            return await asyncio.wait_for(client.run(Greet, "Ada", workflow_id="w"), SECONDS)

    with pytest.raises(assay.AssayError, match="TLS: self-signed certificate"):
        asyncio.run(scenario())
    monkeypatch.setenv("SSL_CERT_FILE", str(files[0]))
    assert asyncio.run(scenario()) == "Hello, Ada!"

    command = [sys.executable, "-m", "assay", "workflow", "result", "w", "--engine-url", url]
    shown = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)  # noqa: S603
    assert (shown.returncode, "Hello, Ada!" in shown.stdout) == (0, True), shown
    blind = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}
    refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS, env=blind)  # noqa: S603
    assert refused.returncode == 1
    assert "certificate" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_answers_over_https_forbid_plain_http(server: Server, files: tuple[Path, Path]):
    trusting = ssl.create_default_context(cafile=str(files[0]))
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=10, context=trusting)
    for path, status in ((f"{PREFIX}/health", 200), (f"{PREFIX}/nothing", 404), ("/", 308)):
        connection.request("GET", path)
        reply = connection.getresponse()
        reply.read()
        assert reply.status == status
        assert reply.getheader("strict-transport-security") == "max-age=31536000"
    connection.close()
    plain = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    plain.request("GET", f"{PREFIX}/health")
    with pytest.raises((http.client.HTTPException, OSError)):
        plain.getresponse()
    plain.close()


def test_a_certificate_is_replaced_without_a_restart(server: Server, tmp_path: Path):
    first = serial(server)
    write_certificate(tmp_path, serial=111)
    until(lambda: serial(server) == 111)
    assert first != 111

    # A bad pair keeps the old one, by the change of the file and by the signal.
    key = (tmp_path / "tls.key").read_bytes()
    (tmp_path / "tls.key").write_text("no key")
    until(lambda: "the former pair stays" in server.errors.read_text())
    server.process.send_signal(signal.SIGHUP)
    until(lambda: server.errors.read_text().count("the former pair stays") == 2)
    assert serial(server) == 111
    (tmp_path / "tls.key").write_bytes(key)
    until(lambda: server.errors.read_text().count("was loaded again") >= 2)

    write_certificate(tmp_path, serial=222)
    server.process.send_signal(signal.SIGHUP)
    until(lambda: serial(server) == 222)


def test_files_that_are_no_pair_refuse_the_start(tmp_path: Path):
    cert, _ = write_certificate(tmp_path, "one")
    _, key = write_certificate(tmp_path, "two")
    command = [sys.executable, "-m", "assay", "serve", "--port", "0", "--tls-cert", str(cert), "--tls-key", str(key)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS, cwd=tmp_path)  # noqa: S603
    assert result.returncode == 64
    assert "--tls-cert" in result.stderr
    assert "--tls-key" in result.stderr
    assert "mismatch" in result.stderr
