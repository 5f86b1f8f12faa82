"""A corpus of tokens: only those with the right key, algorithm, issuer, audience and times are accepted."""

import base64
import json
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from assay.auth.json_web_tokens import InvalidToken, TokenRules, header_of, is_token, key_for, verify
from assay.auth.key_sets import KeySet, parse_key_set
from assay.core.model.ids import SECOND

NOW = 1_700_000_000
ISSUER, AUDIENCE = "https://issuer.example", "assay"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
P384 = ec.generate_private_key(ec.SECP384R1())
ED = ed25519.Ed25519PrivateKey.generate()


def jwk(key: Any, algorithm: str, **fields: Any) -> dict[str, Any]:
    return {**jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True), **fields}


KEYS = parse_key_set(
    json.dumps(
        {
            "keys": [
                jwk(RSA, "RS256", kid="rsa", alg="RS256", use="sig"),
                jwk(EC, "ES256", kid="ec"),
                jwk(ED, "EdDSA", kid="ed"),
                jwk(RSA, "PS256", kid="pss", alg="PS256"),
                {"kty": "oct", "kid": "oct", "k": "c2VjcmV0"},
                jwk(OTHER, "RS256", kid="encryption", use="enc"),
            ]
        }
    ).encode()
)
CLAIMS = {"iss": ISSUER, "aud": AUDIENCE, "exp": NOW + 60, "sub": "ada"}


def encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def token(
    claims: dict[str, Any] | bytes | None = None,
    key: Any = RSA,
    algorithm: str = "RS256",
    kid: object = "rsa",
    **header: Any,
) -> str:
    head = {"alg": algorithm, "typ": "JWT", **({} if kid is None else {"kid": kid}), **header}
    payload = json.dumps(CLAIMS if claims is None else claims).encode() if not isinstance(claims, bytes) else claims
    signed = f"{encoded(json.dumps(head).encode())}.{encoded(payload)}"
    signature = jwt.get_algorithm_by_name(algorithm).sign(signed.encode(), key) if algorithm != "none" else b""
    return f"{signed}.{encoded(signature)}"


def accepted(text: str, rules: TokenRules | None = None, keys: KeySet = KEYS, now: int = NOW) -> dict[str, Any]:
    header = header_of(text)
    return verify(text, header, key_for(header, keys), rules or TokenRules(ISSUER, AUDIENCE), now * SECOND)


@pytest.mark.parametrize(
    "text",
    [
        token(),
        token(key=EC, algorithm="ES256", kid="ec"),
        token(key=ED, algorithm="EdDSA", kid="ed"),
        token(key=RSA, algorithm="PS256", kid="pss"),
        token(kid=None),
        token({**CLAIMS, "aud": ["other", AUDIENCE]}),
        token({**CLAIMS, "exp": NOW - 59}),
        token({**CLAIMS, "nbf": NOW + 59, "iat": NOW + 59}),
        token(typ="at+jwt"),
        token({**CLAIMS, "typ": "Bearer"}),
    ],
)
def test_valid_tokens_are_accepted(text: str):
    assert is_token(text)
    assert accepted(text)["sub"] == "ada"


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in CLAIMS.items() if key != name}


def tampered(change: Callable[[list[str]], None]) -> str:
    parts = token().split(".")
    change(parts)
    return ".".join(parts)


PEM = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def confused() -> str:
    """Return a token signed by HMAC with the public key as the secret."""
    import hashlib
    import hmac

    signed = f"{encoded(json.dumps({'alg': 'HS256', 'kid': 'rsa'}).encode())}.{encoded(json.dumps(CLAIMS).encode())}"
    return f"{signed}.{encoded(hmac.new(PEM, signed.encode(), hashlib.sha256).digest())}"


REFUSED = {
    "none": token(algorithm="none"),
    "NoNe": tampered(lambda p: p.__setitem__(0, encoded(b'{"alg":"NoNe","kid":"rsa"}'))),
    "HMAC with the public key": confused(),
    "RS512": token(algorithm="RS512"),
    "PS256 with an RS256 key": token(algorithm="PS256"),
    "ES256 with an RSA key id": token(key=EC, algorithm="ES256", kid="rsa"),
    "another key": token(key=OTHER),
    "an unknown kid": token(kid="gone"),
    "a kid that is a path": token(kid="../../dev/null"),
    "a kid that is SQL": token(kid="' OR 1=1 --"),
    "a kid that is a list": token(kid=["rsa"]),
    "a huge kid": token(kid="k" * 3_000),
    "a symmetric key": token(kid="oct"),
    "a key for encryption": token(key=OTHER, kid="encryption"),
    "an embedded key": token(key=OTHER, kid=None, jwk=jwk(OTHER, "RS256")),
    "crit": token(crit=["b64"]),
    "b64": token(b64=False),
    "zip": token(zip="DEF"),
    "another type": token(typ="logout+jwt"),
    "no exp": token(without("exp")),
    "exp as a text": token({**CLAIMS, "exp": str(NOW + 60)}),
    "exp as a truth": token({**CLAIMS, "exp": True}),
    "exp without end": token(json.dumps({**CLAIMS, "exp": 0}).replace(": 0", ": 1e309").encode()),
    "expired": token({**CLAIMS, "exp": NOW - 60}),
    "not yet": token({**CLAIMS, "nbf": NOW + 61}),
    "issued in the future": token({**CLAIMS, "iat": NOW + 61}),
    "no issuer": token(without("iss")),
    "an issuer with a slash": token({**CLAIMS, "iss": ISSUER + "/"}),
    "an issuer's prefix": token({**CLAIMS, "iss": ISSUER[:-1]}),
    "an issuer in capitals": token({**CLAIMS, "iss": ISSUER.upper()}),
    "no audience": token(without("aud")),
    "another audience": token({**CLAIMS, "aud": ["other"]}),
    "a part of the audience": token({**CLAIMS, "aud": AUDIENCE + "2"}),
    "an ID token": token({**CLAIMS, "typ": "ID"}),
    "a claim twice": token(json.dumps(CLAIMS).replace("{", '{"sub": "eve", ', 1).encode()),
    "claims that are a list": token(b"[]"),
    "claims that are no JSON": token(b"{"),
    "a signature cut short": tampered(lambda p: p.__setitem__(2, p[2][:-4])),
    "no signature": tampered(lambda p: p.__setitem__(2, "")),
    "other claims": tampered(lambda p: p.__setitem__(1, encoded(json.dumps({**CLAIMS, "sub": "eve"}).encode()))),
    "r and s of zero": ".".join([*token(key=EC, algorithm="ES256", kid="ec").split(".")[:2], encoded(bytes(64))]),
    "five parts": token() + ".a.b",
    "two parts": token().rpartition(".")[0],
    "a megabyte": token({**CLAIMS, "x": "x" * 1_000_000}),
    "no algorithm": tampered(lambda p: p.__setitem__(0, encoded(b'{"kid":"rsa"}'))),
    "an algorithm that is a list": tampered(lambda p: p.__setitem__(0, encoded(b'{"alg":["RS256"],"kid":"rsa"}'))),
    "an algorithm in small letters": tampered(lambda p: p.__setitem__(0, encoded(b'{"alg":"rs256","kid":"rsa"}'))),
    "HS512": tampered(lambda p: p.__setitem__(0, encoded(b'{"alg":"HS512","kid":"oct"}'))),
    "ES384 of another curve": token(key=P384, algorithm="ES384", kid="ec"),
    "EdDSA with an elliptic key id": token(key=ED, algorithm="EdDSA", kid="ec"),
    "an empty kid": token(kid=""),
    "a kid that is a number": token(kid=7),
    "a kid that is an object": token(kid={"rsa": 1}),
    "a kid with U+0000": token(kid="rsa\0"),
    "the address of a key set": token(key=OTHER, kid=None, jku="https://evil.example/keys"),
    "the address of a certificate": token(key=OTHER, kid=None, x5u="https://evil.example/cert"),
    "a certificate": token(key=OTHER, kid=None, x5c=["MIIB"]),
    "an encrypted token": ".".join([encoded(b'{"alg":"RSA-OAEP","enc":"A128GCM"}'), "a", "b", "c", "d"]),
    "a refresh token": token({**CLAIMS, "typ": "Refresh"}),
    "an exp of nothing": token({**CLAIMS, "exp": None}),
    "an exp that is no number": token(json.dumps({**CLAIMS, "exp": 0}).replace(": 0", ": NaN").encode()),
    "an issuer in a list": token({**CLAIMS, "iss": [ISSUER]}),
    "an audience in an object": token({**CLAIMS, "aud": {AUDIENCE: 1}}),
    "claims that nest deeply": token(b"[" * 3_000 + b"]" * 3_000),
    "claims that are no text": token(b"\xff\xfe"),
    "a signature of another token": tampered(lambda p: p.__setitem__(2, token({**CLAIMS, "sub": "b"}).split(".")[2])),
}


def test_the_corpus_is_large_enough():
    assert len(REFUSED) >= 60


@pytest.mark.parametrize("name", REFUSED)
def test_other_tokens_are_refused(name: str):
    assert is_token(REFUSED[name])
    with pytest.raises(InvalidToken, match="JWT validation failed: "):
        accepted(REFUSED[name])


def test_an_audience_counts_only_where_one_is_configured():
    assert accepted(token(without("aud")), TokenRules(ISSUER))
    assert accepted(token({**CLAIMS, "typ": "ID"}), TokenRules(ISSUER, AUDIENCE, id_token=True))


@pytest.mark.parametrize("text", ["assay_" + "0" * 64, "", "a.b.c", "e30", "W10.e30.x"])
def test_other_bearers_are_no_tokens(text: str):
    assert not is_token(text)
