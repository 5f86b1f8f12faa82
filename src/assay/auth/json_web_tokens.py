"""Validate JSON Web Tokens; times and keys are arguments.

The header of a token is untrusted: the algorithm must be on the list and fit the key, embedded keys and addresses of
keys are ignored, and a header with a required extension is refused (RFC 8725).
"""

import base64
import binascii
import json
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import jwt
import msgspec

from assay.auth.key_sets import ALGORITHMS, KeySet, PublicKey
from assay.core.model.errors import AssayError, Kind
from assay.core.model.ids import SECOND, Time

MAX_TOKEN_BYTES: Final = 8 * 1024
MAX_CACHED_HEADER_CHARACTERS: Final = 512
"""Longer headers are decoded each time: strangers must not fill the memory."""
CLOCK_LEEWAY: Final[Time] = 60 * SECOND
_MAX_KID_CHARACTERS: Final = 256
_REFUSED_HEADERS: Final = ("crit", "b64", "zip", "enc")
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_OTHER_PURPOSES: Final = frozenset({"id", "refresh", "offline", "logout"})
"""Values of the claim `typ` of tokens other than access tokens."""


class InvalidToken(AssayError):
    """A refused token; the message has the reason."""

    code = "unauthorized"
    kind = Kind.PERMISSION_DENIED

    def __init__(self, reason: str) -> None:
        super().__init__(f"JWT validation failed: {reason}")


class TokenHeader(msgspec.Struct, frozen=True):
    """The used parts of a token's header."""

    algorithm: str
    kid: str | None


class TokenRules(msgspec.Struct, frozen=True):
    """The rules for accepted tokens."""

    issuer: str
    audience: str | None = None
    id_token: bool = False
    """True for the ID token of a sign-in, which is not accepted as a bearer."""


def is_token(bearer: str) -> bool:
    """Return whether a bearer begins with the header of a token: then it is a token, valid or not, and never a key."""
    head, dot, _ = bearer.partition(".")
    if not dot:
        return False
    return _is_header(head) if len(head) <= MAX_CACHED_HEADER_CHARACTERS else isinstance(_json(head), dict)


@lru_cache(maxsize=1_024)
def _is_header(segment: str) -> bool:
    """Return whether a segment is a header. Cached: all tokens of a key share their header, which is no secret."""
    return isinstance(_json(segment), dict)


def header_of(token: str) -> TokenHeader:
    """Return the header of a token.

    Raises:
        InvalidToken: The token is too large, or its header is not acceptable.
    """
    if len(token) > MAX_TOKEN_BYTES:
        raise InvalidToken(f"the token is larger than {MAX_TOKEN_BYTES:,} bytes")
    parts = token.split(".")
    header = _json(parts[0])
    if len(parts) != 3 or not isinstance(header, dict):
        raise InvalidToken("the token does not have three parts")
    algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise InvalidToken(f"the algorithm must be one of {', '.join(sorted(ALGORITHMS))}")
    if kid is not None and not (isinstance(kid, str) and 0 < len(kid) <= _MAX_KID_CHARACTERS):
        raise InvalidToken("the key id is not a text of sensible length")
    if any(name in header for name in _REFUSED_HEADERS):
        raise InvalidToken("the token demands an extension that is not supported")
    if kind is not None and not (isinstance(kind, str) and kind.lower() in _TYPES):
        raise InvalidToken("the token is of another type")
    return TokenHeader(algorithm, kid)


def key_for(header: TokenHeader, keys: KeySet) -> PublicKey:
    """Return the key for the signature of a token.

    Raises:
        InvalidToken: The set has no suitable key.
    """
    found = keys.find(header.kid, header.algorithm)
    if found is None:
        raise InvalidToken("no suitable key" if header.kid is None else "key not found")
    return found


def verify(token: str, header: TokenHeader, key: PublicKey, rules: TokenRules, now: Time) -> dict[str, Any]:
    """Return the claims of a token after checking signature, times, issuer and audience.

    Raises:
        InvalidToken: A check failed, or `exp` is missing.
    """
    try:
        payload: bytes = jwt.PyJWS().decode_complete(token, key.key, algorithms=[header.algorithm])["payload"]
    except jwt.PyJWTError as error:
        raise InvalidToken(str(error).lower()) from None
    except Exception:  # noqa: BLE001 - an untrusted token must not make the engine fail
        raise InvalidToken("the token cannot be read") from None
    claims = _claims(payload)
    _check_times(claims, now)
    _check_parties(claims, rules)
    return claims


def _claims(payload: bytes) -> dict[str, Any]:
    try:
        claims = json.loads(payload, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise InvalidToken(str(error)) from None
    if not isinstance(claims, dict):
        raise InvalidToken("the claims are not an object")
    return claims


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a claim is there twice")
    return found


def _check_times(claims: Mapping[str, Any], now: Time) -> None:
    moments = {name: _moment(claims, name) for name in ("exp", "nbf", "iat")}
    expires, begins, issued = moments["exp"], moments["nbf"], moments["iat"]
    if expires is None:
        raise InvalidToken('token is missing the "exp" claim')
    if now >= expires + CLOCK_LEEWAY:
        raise InvalidToken("signature has expired")
    if (begins is not None and begins > now + CLOCK_LEEWAY) or (issued is not None and issued > now + CLOCK_LEEWAY):
        raise InvalidToken("the token is not yet valid")


def _moment(claims: Mapping[str, Any], name: str) -> Time | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidToken(f'"{name}" must be a number of seconds')
    return int(value * SECOND)


def _check_parties(claims: Mapping[str, Any], rules: TokenRules) -> None:
    if claims.get("iss") != rules.issuer:
        raise InvalidToken("invalid issuer")
    audiences = claims.get("aud")
    if rules.audience is not None and rules.audience not in (audiences if isinstance(audiences, list) else [audiences]):
        raise InvalidToken("audience doesn't match")
    purpose = claims.get("typ")
    if not rules.id_token and isinstance(purpose, str) and purpose.lower() in _OTHER_PURPOSES:
        raise InvalidToken("the token is not an access token")


def _json(segment: str) -> Any:
    """Return the decoded JSON of a base64url segment; None if the segment is not JSON."""
    try:
        return json.loads(base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return None
