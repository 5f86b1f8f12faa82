"""Programs with a key: clients and workers of the SDK on an engine that demands one."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import assay
from assay.core.model.errors import Invalid
from assay.sdk.client.credential import Credential
from assay.sdk.client.http import reconnector
from tests.api.support import Http, serving

SECONDS = 30


class Keyed:
    """An engine that demands keys."""

    def __init__(self, http: Http) -> None:
        self.http = http
        self.url = f"http://127.0.0.1:{http.port}"
        self.admin = str(http.post("/api-keys", {}).json()["plaintext"])

    def make(self, **fields: object) -> dict[str, str]:
        made = self.http.post("/api-keys", fields, Authorization=f"Bearer {self.admin}")
        assert made.status == 201, made
        found: dict[str, str] = made.json()
        return found

    def revoke(self, key: dict[str, str]) -> None:
        assert self.http.delete(f"/api-keys/{key['prefix']}", Authorization=f"Bearer {self.admin}").status == 204


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with serving(tmp_path_factory.mktemp("keyed"), "--auth-api-key") as server:
        yield Keyed(server.http())


app = assay.App()


@app.workflow
async def Greet(ctx: assay.Context, name: str) -> str:
    return f"Hello, {name}!"


def test_a_worker_and_a_client_with_keys_of_their_own(keyed: Keyed):
    async def scenario() -> None:
        worker_key, client_key = keyed.make(role="worker"), keyed.make(role="operator")
        async with (
            await assay.Client.connect(keyed.url, token=worker_key["plaintext"], app=app) as serving_client,
            await assay.Client.connect(keyed.url, token=client_key["plaintext"], app=app) as client,
            assay.Worker(serving_client),
        ):
            assert await asyncio.wait_for(client.run(Greet, "Ada"), SECONDS) == "Hello, Ada!"
            with pytest.raises(assay.PermissionDenied) as caught:
                await serving_client.start(Greet, "Eve")
            assert (caught.value.status, caught.value.code) == (403, "forbidden")

    asyncio.run(scenario())


def test_a_call_without_a_valid_key_is_denied(keyed: Keyed, monkeypatch: pytest.MonkeyPatch):
    async def scenario(token: str | None) -> None:
        async with await assay.Client.connect(keyed.url, token=token, app=app) as client:
            with pytest.raises(assay.PermissionDenied) as caught:
                await client.start(Greet, "Ada")
            assert caught.value.status == 401

    asyncio.run(scenario("assay_" + "0" * 64))
    asyncio.run(scenario(None))
    monkeypatch.setenv("ASSAY_API_KEY", keyed.admin)

    async def with_key() -> None:
        async with await assay.Client.connect(keyed.url, app=app) as client:
            assert (await client.start(Greet, "Ada")).workflow_id

    asyncio.run(with_key())


def test_the_socket_of_a_revoked_key_is_closed(keyed: Keyed, caplog: pytest.LogCaptureFixture):
    async def scenario() -> None:
        key = keyed.make(role="worker")
        async with (
            await assay.Client.connect(keyed.url, token=key["plaintext"], app=app) as client,
            await assay.Client.connect(keyed.url, token=keyed.admin, app=app) as other,
            assay.Worker(client),
        ):
            assert await asyncio.wait_for(other.run(Greet, "Ada"), SECONDS) == "Hello, Ada!"
            keyed.revoke(key)
            async with asyncio.timeout(10):
                while not any("connection" in record.message for record in caplog.records):
                    await asyncio.sleep(0.05)

    asyncio.run(scenario())


def test_a_stream_ends_with_its_key(keyed: Keyed):
    import http.client

    key = keyed.make(role="reader")
    connection = http.client.HTTPConnection("127.0.0.1", keyed.http.port, timeout=10)
    connection.request("GET", "/api/v1/events/stream", headers={"Authorization": f"Bearer {key['plaintext']}"})
    stream = connection.getresponse()
    assert stream.status == 200
    keyed.revoke(key)
    assert stream.read().startswith(b": connected")  # to its end, which comes within seconds
    connection.close()


def test_a_refused_worker_raises_with_the_engines_words(keyed: Keyed):
    async def scenario(namespace: str, **key: object) -> assay.AssayError:
        token = keyed.make(**key)["plaintext"] if key else "assay_" + "0" * 64
        async with await assay.Client.connect(keyed.url, namespace=namespace, token=token, app=app) as client:
            with pytest.raises(assay.AssayError) as caught:
                await asyncio.wait_for(assay.Worker(client).run(), SECONDS)
            return caught.value

    unknown = asyncio.run(scenario("main"))
    assert isinstance(unknown, assay.PermissionDenied)
    assert (unknown.status, str(unknown)) == (401, "Invalid API key")
    reader = asyncio.run(scenario("main", role="reader"))
    assert isinstance(reader, assay.PermissionDenied)
    assert (reader.status, str(reader)) == (403, "Needs the worker role in main.")
    queue = asyncio.run(scenario("main", role="worker", queues=["other"]))
    assert isinstance(queue, assay.PermissionDenied)
    assert queue.status == 403
    hidden = asyncio.run(scenario("main", role="worker", namespaces=["shop"]))
    assert isinstance(hidden, assay.NotFound)
    assert str(hidden) == "namespace main"


def test_a_worker_goes_on_with_the_next_key_of_its_file(
    keyed: Keyed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    file = tmp_path / "key"
    monkeypatch.setenv("ASSAY_API_KEY_FILE", str(file))
    monkeypatch.setattr(reconnector, "LONGEST_REFUSED_SECONDS", 0.2)

    async def scenario() -> None:
        first, second = keyed.make(role="worker"), keyed.make(role="worker")
        file.write_text(first["plaintext"])
        async with (
            await assay.Client.connect(keyed.url, app=app) as client,
            await assay.Client.connect(keyed.url, token=keyed.admin, app=app) as other,
            assay.Worker(client),
        ):
            assert await asyncio.wait_for(other.run(Greet, "Ada"), SECONDS) == "Hello, Ada!"
            keyed.revoke(first)
            async with asyncio.timeout(SECONDS):
                while not any("refuses this worker" in record.message for record in caplog.records):
                    await asyncio.sleep(0.05)
            begun = await other.start(Greet, "Eve")
            await asyncio.sleep(1)  # several more refusals
            refusals = [record for record in caplog.records if "refuses this worker" in record.message]
            assert len(refusals) == 1
            file.write_text(second["plaintext"])
            assert await asyncio.wait_for(begun.result(), SECONDS) == "Hello, Eve!"

    asyncio.run(scenario())


def test_a_client_reads_its_key_file_again_when_it_is_refused(
    keyed: Keyed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "key"
    monkeypatch.setenv("ASSAY_API_KEY_FILE", str(file))

    async def scenario() -> None:
        first, second = keyed.make(role="operator"), keyed.make(role="operator")
        file.write_text(first["plaintext"])
        async with await assay.Client.connect(keyed.url, app=app) as client:
            await client.start(Greet, "Ada")
            keyed.revoke(first)
            with pytest.raises(assay.PermissionDenied):
                await client.start(Greet, "Ada")
            file.write_text(second["plaintext"])
            await client.start(Greet, "Ada")

    asyncio.run(scenario())


def test_credentials_have_an_order(tmp_path: Path):
    file, config = tmp_path / "key", tmp_path / "config.yaml"
    file.write_text("from-file\n")
    config.write_text(f"api_key: of-config\napi_key_file: {tmp_path / 'own'}\n")
    (tmp_path / "own").write_text("of-config-file")
    every = {"ASSAY_API_KEY": "plain", "ASSAY_API_KEY_FILE": str(file), "ASSAY_CONFIG_FILE": str(config)}

    def found(token: str | None, *left_out: str) -> str | None:
        return Credential(token, environment={name: every[name] for name in every if name not in left_out}).value

    assert found("own") == "own"
    assert found(None) == "from-file"
    assert found(None, "ASSAY_API_KEY_FILE") == "plain"
    assert found(None, "ASSAY_API_KEY_FILE", "ASSAY_API_KEY") == "of-config-file"
    config.write_text("api_key: of-config\n")
    assert found(None, "ASSAY_API_KEY_FILE", "ASSAY_API_KEY") == "of-config"
    assert found(None, *every) is None
    with pytest.raises(Invalid, match="cannot be read"):
        Credential(None, environment={"ASSAY_API_KEY_FILE": str(tmp_path / "gone")})


@pytest.mark.parametrize(
    ("engine_url", "url", "is_sent"),
    [
        (None, "http://127.0.0.1:8080/api/v1", True),
        (None, "http://127.0.0.1:8081", False),
        ("https://engine.example/", "https://ENGINE.example:443", True),
        ("https://engine.example", "http://engine.example", False),
        ("https://engine.example", "https://engine.example.evil.example", False),
        ("https://engine.example", "https://engine.example,https://other.example", False),
        ("https://engine.example", "https://engine.example,https://engine.example", True),
    ],
)
def test_a_key_of_the_config_file_goes_to_its_own_engine_only(
    tmp_path: Path, engine_url: str | None, url: str, is_sent: bool
):
    config = tmp_path / "config.yaml"
    config.write_text("api_key: secret\n" + ("" if engine_url is None else f"engine_url: {engine_url}\n"))
    found = Credential(None, url, {"ASSAY_CONFIG_FILE": str(config)}).value
    assert found == ("secret" if is_sent else None)


def test_the_time_of_a_key_file_is_looked_at_every_ten_seconds(tmp_path: Path):
    file, now = tmp_path / "key", [0.0]
    file.write_text("one")
    os.utime(file, ns=(1, 1))
    credential = Credential(None, environment={"ASSAY_API_KEY_FILE": str(file)}, clock=lambda: now[0])
    file.write_text("two")
    os.utime(file, ns=(2, 2))
    now[0] = 9.9
    assert not credential.check_file()
    now[0] = 10.0
    assert credential.check_file()
    assert credential.value == "two"
    now[0] = 30.0
    assert not credential.check_file()
    file.unlink()
    now[0] = 50.0
    assert not credential.check_file()
    assert not credential.renew()
    assert credential.value == "two"  # a file that is being replaced takes nobody's key
