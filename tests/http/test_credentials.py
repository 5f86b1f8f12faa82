"""Programs with a key: clients and workers of the SDK on an engine that demands one."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import assay
from assay.core.model.errors import Invalid
from assay.sdk.client.environment import find_credential
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


def test_the_environment_names_a_key(tmp_path: Path):
    file = tmp_path / "key"
    file.write_text("from-file\n")
    both = {"ASSAY_API_KEY": "plain", "ASSAY_API_KEY_FILE": str(file)}
    assert find_credential("own", both) == "own"
    assert find_credential(None, both) == "from-file"
    assert find_credential(None, {"ASSAY_API_KEY": "plain"}) == "plain"
    assert find_credential(None, {}) is None
    with pytest.raises(Invalid, match="cannot be read"):
        find_credential(None, {"ASSAY_API_KEY_FILE": str(tmp_path / "gone")})
