"""The sign-in at an issuer as far as no browser is needed: paths, attempts, and what the engine sends to the issuer."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from assay.auth.claims import ClaimRules
from assay.auth.code_flow import CodeFlow, CodeFlowRules, OidcFailed, begin_attempt, decode_attempt, landing_path
from assay.auth.fetching import FetchFailed
from assay.auth.issuer import Issuer
from assay.auth.json_web_tokens import TokenRules
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND
from assay.server.auth_config import client_secret

NOW = 1_700_000_000
BACK = "http://127.0.0.1:8080/back"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.mark.parametrize("path", ["/workflow/", "/workflow/runs/a%2Fb?ns=main#x", "/workflow/a..b/.c", "/workflow//x"])
def test_paths_of_the_dashboard_are_kept(path: str):
    assert landing_path(path) == path


@pytest.mark.parametrize(
    "path", [None, "", "/", "/workflow", "workflow/", "//x/workflow/", "/workflow/./x", "/workflow/é"]
)
def test_other_paths_lead_to_the_dashboard(path: str | None):
    assert landing_path(path) == "/workflow/"


def test_attempts_are_random_and_survive_their_cookie():
    first, second = begin_attempt("/workflow/x"), begin_attempt("/workflow/x")
    assert not {first.state, first.nonce, first.verifier} & {second.state, second.nonce, second.verifier}
    assert len(first.verifier) == 43
    assert decode_attempt(first.encoded()) == first
    for text in (None, "", "x", "e30", "\xff", "=" * 9):
        with pytest.raises(OidcFailed):
            decode_attempt(text)


class FakeIssuer:
    """An issuer that answers every code with the tokens of a test."""

    def __init__(self) -> None:
        self.url = ""
        self.metadata: dict[str, Any] = {}
        self.status = 200
        self.body: Any = None
        self.nonce = ""
        self.claims: dict[str, Any] = {}
        self.access: dict[str, Any] | None = None
        self.form: dict[str, list[str]] = {}
        self.authorization: str | None = None
        self.requests: list[str] = []

    def token(self, **claims: Any) -> str:
        return jwt.encode({"iss": self.url, "sub": "ada", "exp": NOW + 600, **claims}, KEY, "RS256", {"kid": "one"})

    def answer(self, path: str, body: bytes) -> Any:
        if path.endswith("openid-configuration"):
            common = {"issuer": self.url, "jwks_uri": f"{self.url}/keys", "token_endpoint": f"{self.url}/token"}
            return {**common, "authorization_endpoint": f"{self.url}/auth?tenant=a", **self.metadata}
        if path == "/keys":
            return {"keys": [{**jwt.get_algorithm_by_name("RS256").to_jwk(KEY.public_key(), True), "kid": "one"}]}
        self.form = parse_qs(body.decode())
        tokens = {"id_token": self.token(**{"aud": "engine", "nonce": self.nonce, **self.claims})}
        access = {} if self.access is None else {"access_token": self.token(**self.access)}
        return {**tokens, **access} if self.body is None else self.body

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        path = head.split()[1]
        self.requests.append(path)
        if path == "/token":
            self.authorization = headers.get("authorization")
        sent = json.dumps(self.answer(path, body)).encode()
        status = self.status if path == "/token" else 200
        writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s" % (status, len(sent), sent))
        await writer.drain()
        writer.close()


@asynccontextmanager
async def a_flow(secret: str | None = None, **claims: Any) -> AsyncIterator[tuple[CodeFlow, FakeIssuer]]:
    fake = FakeIssuer()
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        issuer = Issuer(TokenRules(fake.url, "assay"), ClaimRules(**claims), lambda: NOW * SECOND)
        yield CodeFlow(issuer, CodeFlowRules("engine", "Fake", secret)), fake


def sign_in(prepare: Any = None, secret: str | None = None, **claims: Any) -> tuple[Any, FakeIssuer]:
    """Sign in after a change of the issuer; the principal or the error, and the issuer."""

    async def scenario() -> tuple[Any, FakeIssuer]:
        async with a_flow(secret, **claims) as (flow, fake):
            attempt = begin_attempt(None)
            fake.nonce = attempt.nonce
            if prepare is not None:
                prepare(fake)
            try:
                answer = {"code": "the code", "state": attempt.state, "iss": fake.url, "error": None}
                return await flow.finish(attempt, answer, BACK), fake
            except (OidcFailed, FetchFailed) as error:
                return error, fake

    return asyncio.run(scenario())


def test_a_public_client_proves_itself_by_the_verifier():
    person, fake = sign_in()
    assert (person.user, person.credential, person.expires_at) == ("ada", "jwt", (NOW + 600) * SECOND)
    assert (fake.form["client_id"], fake.form["code"], fake.form["redirect_uri"]) == (["engine"], ["the code"], [BACK])
    assert len(fake.form["code_verifier"][0]) == 43
    assert "client_secret" not in fake.form
    assert fake.authorization is None


def test_a_confidential_client_sends_its_secret_as_the_issuer_takes_it():
    _, fake = sign_in(secret="a b+%:c")  # noqa: S106
    assert fake.authorization == f"Basic {base64.b64encode(b'engine:a+b%2B%25%3Ac').decode()}"
    assert "client_secret" not in fake.form

    def post_only(fake: FakeIssuer) -> None:
        fake.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}

    _, fake = sign_in(post_only, secret="a b+%:c")  # noqa: S106
    assert fake.authorization is None
    assert fake.form["client_secret"] == ["a b+%:c"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"status": 400, "body": {"error": "invalid_grant"}}, OidcFailed),
        ({"status": 500}, FetchFailed),
        ({"status": 302}, OidcFailed),
        ({"body": []}, OidcFailed),
        ({"body": {}}, OidcFailed),
        ({"body": {"id_token": 1}}, OidcFailed),
        ({"body": {"id_token": "x.y.z"}}, OidcFailed),
        ({"claims": {"nonce": "other"}}, OidcFailed),
        ({"claims": {"nonce": None}}, OidcFailed),
        ({"claims": {"aud": "other"}}, OidcFailed),
        ({"claims": {"aud": ["engine", "other"], "azp": "other"}}, OidcFailed),
        ({"claims": {"iss": "https://evil.example"}}, OidcFailed),
        ({"claims": {"exp": NOW - 61}}, OidcFailed),
        ({"metadata": {"token_endpoint": "http://169.254.169.254/token"}}, FetchFailed),
        ({"metadata": {"token_endpoint": "http://8.8.8.8/token"}}, FetchFailed),
        ({"metadata": {"token_endpoint": None}}, FetchFailed),
        ({"metadata": {"token_endpoint": "file:///etc/passwd"}}, FetchFailed),
    ],
    ids=str,
)
def test_a_token_that_does_not_fit_is_refused(change: dict[str, Any], error: type[Exception]):
    def prepare(fake: FakeIssuer) -> None:
        for name, value in change.items():
            setattr(fake, name, value)

    assert isinstance(sign_in(prepare)[0], error)


def test_roles_come_from_the_id_token_and_else_from_a_valid_access_token():
    def claims(own: dict[str, Any], access: dict[str, Any] | None) -> dict[str, str]:
        def prepare(fake: FakeIssuer) -> None:
            fake.claims, fake.access = own, access

        found: dict[str, str] = sign_in(prepare, roles_claim="realm.roles", namespaces_claim="ns")[0].shown_roles()
        return found

    reader = {"realm": {"roles": ["reader"]}, "ns": ["shop"]}
    admin = {"realm": {"roles": ["admin"]}, "ns": ["main"], "aud": "assay"}
    assert claims(reader, None) == {"shop": "reader"}
    assert claims(reader, admin) == {"shop": "reader"}
    assert claims({}, admin) == {"main": "admin"}
    assert claims({"ns": ["shop"]}, admin) == {"shop": "admin"}
    assert claims({}, {**admin, "aud": "other"}) == {}
    assert claims({}, {**admin, "exp": NOW - 61}) == {}
    assert claims({}, None) == {}


def test_the_discovery_document_is_not_fetched_for_each_attempt():
    async def scenario() -> None:
        async with a_flow() as (flow, fake):
            found = await asyncio.gather(*(flow.address(begin_attempt(None), BACK) for _ in range(20)))
            assert all(address.startswith(f"{fake.url}/auth?tenant=a&response_type=code&") for address in found)
            assert len(fake.requests) == 1

    asyncio.run(scenario())


def test_the_secret_comes_from_a_file_or_a_variable(tmp_path: Path):
    file = tmp_path / "secret"
    file.write_text("from-file\n")
    both = {"ASSAY_AUTH_CLIENT_SECRET": "plain", "ASSAY_AUTH_CLIENT_SECRET_FILE": str(file)}
    assert client_secret(both) == "from-file"
    assert client_secret({"ASSAY_AUTH_CLIENT_SECRET": "plain"}) == "plain"
    assert client_secret({}) is None
    file.write_text("")
    for path in (file, tmp_path / "gone"):
        with pytest.raises(Invalid, match="ASSAY_AUTH_CLIENT_SECRET_FILE"):
            client_secret({"ASSAY_AUTH_CLIENT_SECRET_FILE": str(path)})
