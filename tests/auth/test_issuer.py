"""A real issuer on loopback: discovery, rotation, and an issuer that fails."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from assay.auth import fetching
from assay.auth.addresses import check_configured
from assay.auth.claims import ClaimRules
from assay.auth.fetching import fetch
from assay.auth.issuer import Issuer
from assay.auth.json_web_tokens import InvalidToken, TokenRules
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND

NOW = 1_700_000_000


class FakeIssuer:
    """Serves a discovery document and a key set, and counts the requests."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: dict[str, rsa.RSAPrivateKey] = {}
        self.requests: list[str] = []
        self.answer: bytes | None = None
        """Sent instead of any document."""
        self.key_set_url: str | None = None

    def rotate(self, kid: str) -> None:
        self.keys = {kid: rsa.generate_private_key(public_exponent=65537, key_size=2048)}

    def token(self, kid: str, **claims: Any) -> str:
        content = {"iss": self.url, "sub": "ada", "exp": NOW + 600, **claims}
        return jwt.encode(content, self.keys[kid], algorithm="RS256", headers={"kid": kid})

    def document(self, path: str) -> dict[str, Any]:
        if path.endswith("openid-configuration"):
            return {"issuer": self.url, "jwks_uri": self.key_set_url or f"{self.url}/keys"}
        algorithm = jwt.get_algorithm_by_name("RS256")
        return {
            "keys": [{**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid} for kid, key in self.keys.items()]
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split()[1].decode()
        self.requests.append(path)
        body = json.dumps(self.document(path)).encode()
        writer.write(self.answer or b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()


@asynccontextmanager
async def an_issuer() -> AsyncIterator[FakeIssuer]:
    fake = FakeIssuer()
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    fake.rotate("one")
    async with server:
        yield fake


class Clock:
    def __init__(self) -> None:
        self.ahead = 0

    def __call__(self) -> int:
        return NOW * SECOND + self.ahead


def issuer_of(fake: FakeIssuer, clock: Clock | None = None) -> Issuer:
    return Issuer(TokenRules(fake.url), ClaimRules(), clock or Clock())


def test_a_valid_token_is_verified_once_and_its_key_set_is_fetched_once():
    async def scenario() -> None:
        async with an_issuer() as fake:
            issuer, token = issuer_of(fake), fake.token("one")
            callers = await asyncio.gather(*(issuer.authenticate(token) for _ in range(50)))
            assert {caller.user for caller in callers} == {"ada"}
            assert len(fake.requests) == 2

    asyncio.run(scenario())


def test_a_rotated_key_is_found_without_a_restart():
    async def scenario() -> None:
        async with an_issuer() as fake:
            clock = Clock()
            issuer = issuer_of(fake, clock)
            await issuer.authenticate(fake.token("one"))
            fake.rotate("two")
            with pytest.raises(InvalidToken, match="key not found"):
                await issuer.authenticate(fake.token("two"))  # too soon after the last fetch
            clock.ahead = 31 * SECOND
            fake.rotate("three")
            assert (await issuer.authenticate(fake.token("three"))).user == "ada"

    asyncio.run(scenario())


FAILURES = {
    "an error": b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n",
    "a redirect": b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
    "no HTTP": b"hello\r\n\r\n",
    "an early end": b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{",
    "too much": b"HTTP/1.1 200 OK\r\ncontent-length: 900000\r\n\r\n" + b" " * 900_000,
    "no JSON": b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{",
}


@pytest.mark.parametrize("name", FAILURES)
def test_valid_users_are_not_locked_out_while_the_issuer_fails(name: str):
    async def scenario() -> None:
        async with an_issuer() as fake:
            clock = Clock()
            issuer = issuer_of(fake, clock)
            await issuer.authenticate(fake.token("one"))
            fake.answer = FAILURES[name]
            clock.ahead = 660 * SECOND
            token = fake.token("one", exp=NOW + 7_200)
            assert (await issuer.authenticate(token)).user == "ada"
            with pytest.raises(InvalidToken):
                await issuer_of(fake).authenticate(token)  # an engine that never had the keys

    asyncio.run(scenario())


@pytest.mark.parametrize("address", ["http://169.254.169.254/keys", "http://[fe80::1]/keys"])
def test_a_discovery_document_cannot_send_the_engine_to_a_metadata_address(address: str):
    async def scenario() -> None:
        async with an_issuer() as fake:
            fake.key_set_url = address
            with pytest.raises(InvalidToken, match="cannot be fetched"):
                await issuer_of(fake).authenticate(fake.token("one"))

    asyncio.run(scenario())


def test_random_key_ids_cause_one_fetch_in_thirty_seconds():
    async def scenario() -> None:
        async with an_issuer() as fake:
            clock = Clock()
            issuer, valid = issuer_of(fake, clock), fake.token("one")
            await issuer.authenticate(valid)
            before = len(fake.requests)
            key = fake.keys["one"]
            content = {"iss": fake.url, "sub": "eve", "exp": NOW + 600}
            unknown = jwt.encode(content, key, algorithm="RS256", headers={"kid": "x"}).partition(".")[2]
            for number in range(10_000):
                clock.ahead = 31 * SECOND  # a fetch is allowed, once
                header = json.dumps({"alg": "RS256", "kid": f"k{number}"}).encode()
                with pytest.raises(InvalidToken, match="key not found"):
                    await issuer.authenticate(f"{base64.urlsafe_b64encode(header).decode().rstrip('=')}.{unknown}")
            assert len(fake.requests) - before <= 2  # discovery document and key set
            assert (await issuer.authenticate(valid)).user == "ada"

    asyncio.run(scenario())


def test_the_address_that_was_checked_is_the_address_that_is_used(monkeypatch: pytest.MonkeyPatch):
    """A name whose address changes between check and use would lead the engine to a private address."""

    async def scenario() -> None:
        async with an_issuer() as fake:
            port = int(fake.url.rpartition(":")[2])
            answers = iter(["127.0.0.1", "169.254.169.254", "10.0.0.1"])
            asked: list[object] = []

            async def getaddrinfo(host: object, *_: object, **__: object) -> list[Any]:
                asked.append(host)
                return [(None, None, None, "", (next(answers), port))]

            loop = asyncio.get_running_loop()
            monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo, raising=False)
            checked: list[str] = []
            document = await fetch(
                f"http://issuer.example:{port}/keys", lambda address: checked.append(str(address)), limit=100_000
            )
            assert b"keys" in document
            assert (asked[0], checked) == ("issuer.example", ["127.0.0.1"])
            assert asked.count("issuer.example") == 1
            with pytest.raises(Invalid, match="link-local"):
                await fetch(f"http://issuer.example:{port}/keys", check_configured, limit=100_000)

    asyncio.run(scenario())


def test_an_issuer_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fetching, "FETCH_SECONDS", 0.2)

    async def scenario() -> None:
        ended = asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()
            await writer.wait_closed()
            ended.set()

        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
            fake = FakeIssuer()
            fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            fake.rotate("one")
            with pytest.raises(InvalidToken, match="cannot be fetched"):
                await issuer_of(fake).authenticate(fake.token("one"))
            await ended.wait()

    asyncio.run(scenario())
