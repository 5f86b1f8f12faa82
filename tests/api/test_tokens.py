"""Tokens of an issuer over HTTP: refused ones are 401, and lead the engine nowhere."""

import base64
import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.api.support import OTHER_PREFIX, PREFIX, Http, serving

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)


class FakeIssuer(ThreadingHTTPServer):
    """Serves discovery document and key set, and writes down every path that is asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.paths: list[str] = []

    def token(self, key: Any = KEY, header: dict[str, Any] | None = None, **claims: Any) -> str:
        content = {"iss": self.url, "aud": "assay", "sub": "ada", "exp": time.time() + 600, **claims}  # noqa: TID251
        return jwt.encode(content, key, algorithm="RS256", headers={"kid": "one", **(header or {})})


class _Answering(BaseHTTPRequestHandler):
    server: FakeIssuer

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        public = jwt.get_algorithm_by_name("RS256").to_jwk(KEY.public_key(), as_dict=True)
        keys = {"keys": [{**public, "kid": "one", "alg": "RS256"}]}
        url = self.server.url
        found = {"issuer": url, "jwks_uri": f"{url}/keys", "authorization_endpoint": f"{url}/authorize"}
        body = json.dumps(keys if self.path == "/keys" else found).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def issuer() -> Iterator[FakeIssuer]:
    with FakeIssuer() as fake:
        thread = threading.Thread(target=fake.serve_forever)
        thread.start()
        yield fake
        fake.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def http(issuer: FakeIssuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    flags = ("--auth-api-key", "--auth-issuer", issuer.url, "--auth-audience", "assay", "--auth-header", "X-Token")
    with serving(tmp_path_factory.mktemp("tokens"), *flags) as server:
        yield server.http()


def refused(issuer: FakeIssuer) -> dict[str, str]:
    head, claims, signature = issuer.token().split(".")
    elsewhere = f"{issuer.url}/evil"
    own = {**jwt.get_algorithm_by_name("RS256").to_jwk(OTHER.public_key(), as_dict=True)}
    none = base64.urlsafe_b64encode(b'{"alg":"none","kid":"one"}').decode().rstrip("=")
    return {
        "none": f"{none}.{claims}.",
        "tampered": f"{head}.{claims[:-6]}AAAAAA.{signature}",
        "cut": f"{head}.{claims}.{signature[:-6]}",
        "another key": issuer.token(OTHER),
        "jku": issuer.token(OTHER, {"jku": elsewhere}),
        "x5u": issuer.token(OTHER, {"x5u": elsewhere}),
        "jwk": issuer.token(OTHER, {"jwk": own}),
        "jku and an unknown kid": issuer.token(OTHER, {"jku": elsewhere, "kid": "two"}),
        "a kid that is a path": issuer.token(OTHER, {"kid": "../../evil"}),
        "crit": issuer.token(KEY, {"crit": ["x"], "x": 1}),
        "expired": issuer.token(exp=time.time() - 61),  # noqa: TID251
        "no audience": issuer.token(aud=None),
        "another audience": issuer.token(aud="other"),
        "another issuer": issuer.token(iss="https://evil.example"),
        "too long": issuer.token(x="x" * 8_192),
    }


def test_tokens_are_accepted_or_refused_with_401_and_lead_nowhere(issuer: FakeIssuer, http: Http):
    valid = issuer.token()
    assert http.get("/workflows", Authorization=f"Bearer {valid}").status == 200
    assert http.get("/workflows", X_Token=valid).status == 200
    assert http.get("/workflows", X_Token=valid, Authorization="Bearer x").status == 401
    for name, token in refused(issuer).items():
        reply = http.get("/workflows", Authorization=f"Bearer {token}")
        assert (reply.status, reply.json()["code"]) == (401, "unauthorized"), name
        assert reply.json()["error"].startswith("JWT validation failed: "), name
        assert http.post("/session", {"api_key": token}).status == 401, name
    assert set(issuer.paths) == {"/.well-known/openid-configuration", "/keys"}
    assert len(issuer.paths) <= 4  # at the start, and once for key ids that are not in the set
    assert http.get("/workflows", Authorization=f"Bearer {valid}").status == 200


def test_a_session_of_a_token_ends_with_the_token(issuer: FakeIssuer, http: Http):
    reply = http.post("/session", {"api_key": issuer.token(exp=time.time() + 100, preferred_username="Ada")})  # noqa: TID251
    assert reply.status == 200
    assert (reply.json()["user"], reply.json()["auth"], reply.json()["roles"]) == (
        "Ada",
        "jwt+api-key",
        {"*": "admin"},
    )
    assert 90 <= int(reply.headers["set-cookie"].partition("Max-Age=")[2].partition(";")[0]) <= 100
    late = http.post("/session", {"api_key": issuer.token(exp=time.time() - 30)})  # noqa: TID251
    assert (late.status, late.json()["error"]) == (401, "the credential has expired")


@pytest.mark.parametrize(
    ("flags", "headers", "origin", "cookie"),
    [
        ((), {}, "http://127.0.0.1:{port}", r"wf_[0-9a-f]{8}-login=[\w-]+; Max-Age=600; {plain}"),
        (
            ("--allowed-host", "engine"),
            {"Host": "engine"},
            "http://engine",
            r"wf_[0-9a-f]{8}-login=[\w-]+; Max-Age=600; {plain}",
        ),
        (
            ("--public-url", "https://engine.example/"),
            {},
            "https://engine.example",
            r"__Host-wf-login=[\w-]+; Max-Age=600; {plain}; Secure",
        ),
        (
            ("--trusted-proxy", "127.0.0.1"),
            {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "outside.example"},
            "https://outside.example",
            r"__Host-wf-login=[\w-]+; Max-Age=600; {plain}; Secure",
        ),
    ],
)
def test_the_way_back_from_the_issuer(
    issuer: FakeIssuer, tmp_path: Path, flags: tuple[str, ...], headers: dict[str, str], origin: str, cookie: str
):
    own = ("--auth-issuer", issuer.url, "--auth-client-id", "engine", "--auth-scope", "openid groups")
    with serving(tmp_path, *own, *flags) as server:
        for prefix in (PREFIX, OTHER_PREFIX):
            reply = server.http().raw("GET", f"{prefix}/session/oidc", None, headers)
            assert reply.status == 303, reply
            where = urlsplit(reply.headers["location"])
            query = parse_qs(where.query)
            assert f"{where.scheme}://{where.netloc}{where.path}" == f"{issuer.url}/authorize"
            back = origin.replace("{port}", str(server.port)) + "/api/v1/engine/workflow/session/callback"
            assert (query["redirect_uri"], query["scope"], query["client_id"]) == (
                [back],
                ["openid groups"],
                ["engine"],
            )
            wanted = cookie.replace("{plain}", "Path=/; HttpOnly; SameSite=Lax")
            assert re.fullmatch(wanted, reply.headers["set-cookie"]), reply.headers
            assert reply.headers["cache-control"] == "no-store"
