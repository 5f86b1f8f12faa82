"""Flags of `assay serve` that cannot be served together are refused with a sentence, before anything is opened."""

from pathlib import Path

import pytest

from assay.cli.main import run
from tests.api.support import serving

ISSUER = ("--auth-issuer", "https://id.example.com")


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("--auth-audience", "assay"), ("--auth-audience", "--auth-issuer")),
        (("--auth-jwks-url", "https://id.example.com/keys"), ("--auth-jwks-url", "--auth-issuer")),
        (("--auth-header", "X-Token"), ("--auth-header", "--auth-issuer")),
        (("--auth-roles-claim", "roles"), ("--auth-roles-claim", "--auth-issuer")),
        (("--auth-namespaces-claim", "spaces"), ("--auth-namespaces-claim", "--auth-issuer")),
        (("--auth-role", "x=admin"), ("--auth-role", "--auth-issuer")),
        ((*ISSUER, "--auth-role", "x=admin"), ("--auth-role", "--auth-roles-claim")),
        ((*ISSUER, "--auth-roles-claim", "r", "--auth-role", "x=root"), ("x=root", "reader, worker, operator, admin")),
        ((*ISSUER, "--auth-header", "Authorization"), ("--auth-header", "Cf-Access-Jwt-Assertion")),
        (("--auth-issuer", "id.example.com"), ("--auth-issuer", "https://")),
        (("--auth-issuer", "http://id.example.com"), ("--auth-issuer", "https")),
        (("--auth-client-id", "assay"), ("--auth-client-id", "--auth-issuer")),
        ((*ISSUER, "--auth-scope", "openid"), ("--auth-scope", "--auth-client-id")),
        ((*ISSUER, "--auth-label", "Example"), ("--auth-label", "--auth-client-id")),
        ((*ISSUER, "--auth-client-id", "a", "--auth-scope", "email"), ("--auth-scope", "openid")),
        ((*ISSUER, "--auth-client-id", "a", "--auth-label", " "), ("--auth-label",)),
        (("--tls-cert", "here.pem"), ("--tls-cert", "--tls-key")),
        (("--tls-key", "here.pem"), ("--tls-key", "--tls-cert")),
        (("--tls-key", "here.pem", "--tls-cert", "here.pem"), ("--tls-cert", "not a file")),
        (("--trusted-proxy", "proxy"), ("--trusted-proxy", "10.0.0.0/8")),
        (("--cors-origin", "*"), ("--cors-origin", "every page")),
        (("--cors-origin", "null"), ("--cors-origin", "every page")),
        (("--cors-origin", "https://app.example.com/"), ("--cors-origin", "path")),
        (("--cors-origin", "app.example.com"), ("--cors-origin", "https://")),
        (("--public-url", "https://engine.example.com/assay"), ("--public-url", "path")),
        (("--public-url", "engine"), ("--public-url", "https://")),
        (("--allowed-host", "http://engine"), ("--allowed-host", "host name")),
        (("--allowed-host", "engine:80"), ("--allowed-host", "port")),
        (("--rate-limit", "0"), ("--rate-limit",)),
        (("--rate-limit", "many"), ("--rate-limit",)),
        (("--label", "ci"), ("--label", "--generate-api-key")),
        (("--host", "0.0.0.0"), ("--auth-api-key", "--no-auth")),  # noqa: S104  # refused
    ],
)
def test_flags_that_do_not_fit_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    names: tuple[str, ...],
):
    monkeypatch.chdir(tmp_path)
    assert run(["serve", "--port", "0", *arguments]) == 64
    said = " ".join(capsys.readouterr().err.split())
    assert [name for name in names if name not in said] == []
    assert list(tmp_path.iterdir()) == []


def test_the_modes_are_named_at_the_start(tmp_path: Path):
    modes = {
        (): "no-auth (open access)",
        ("--no-auth",): "no-auth (open access)",
        ("--auth-api-key",): "api-key",
        ISSUER: "jwt (issuer: https://id.example.com)",
        (*ISSUER, "--auth-api-key"): "jwt (issuer: https://id.example.com) + api-key",
    }
    for flags, text in modes.items():
        with serving(tmp_path, *flags) as server:
            assert f"  auth      {text}" in server.greeting


def test_no_auth_beside_a_mode_opens_nothing(tmp_path: Path):
    with serving(tmp_path, "--no-auth", "--auth-api-key") as server:
        assert any("--no-auth opens nothing" in line for line in server.greeting)
        assert server.http().get("/workflows").status == 401
