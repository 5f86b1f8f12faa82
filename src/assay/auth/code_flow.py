"""Sign-in at an OpenID Connect issuer by the authorization code flow, with PKCE, state and nonce.

The browser carries the secrets of an attempt in a cookie: an answer of the issuer counts only in the browser that began
the attempt, and a stolen code is useless without the cookie.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote_plus, unquote, urlencode

import msgspec

from assay.auth.addresses import checked_url
from assay.auth.claims import claim_of
from assay.auth.fetching import FetchFailed
from assay.auth.issuer import Issuer
from assay.auth.json_web_tokens import InvalidToken, TokenRules, is_token
from assay.auth.permissions import Principal
from assay.core.model.errors import AssayError, Invalid, Kind

DASHBOARD_PATH: Final = "/workflow/"
DEFAULT_SCOPE: Final = "openid profile email"
LOGIN_SECONDS: Final = 600
"""The time for a sign-in at the issuer."""
MAX_NEXT_CHARACTERS: Final = 1_024
_SECRET_BYTES: Final = 32
_MAX_TOKEN_ANSWER_BYTES: Final = 256 * 1024


class OidcFailed(AssayError):
    """A sign-in at the issuer that did not succeed."""

    code = "oidc_failed"
    kind = Kind.INVALID

    def __init__(self, reason: str) -> None:
        super().__init__(f"the sign-in failed: {reason}; begin again")


class CodeFlowRules(msgspec.Struct, frozen=True):
    """The engine as a client of the issuer, registered by the operator."""

    client_id: str
    label: str
    """The name of the issuer for people."""
    client_secret: str | None = None
    """None for a public client."""
    scope: str = DEFAULT_SCOPE


class LoginAttempt(msgspec.Struct, frozen=True):
    """The secrets of a sign-in, kept by the browser."""

    state: str
    nonce: str
    verifier: str
    next: str
    """The path to show after the sign-in."""

    def encoded(self) -> str:
        """Return the text of the cookie."""
        return _base64url(msgspec.json.encode(self))


def begin_attempt(next_path: str | None) -> LoginAttempt:
    """Return an attempt with fresh secrets."""
    state, nonce, verifier = (_base64url(secrets.token_bytes(_SECRET_BYTES)) for _ in range(3))
    return LoginAttempt(state, nonce, verifier, landing_path(next_path))


def decode_attempt(text: str | None) -> LoginAttempt:
    """Return the attempt in a cookie.

    Raises:
        OidcFailed: The browser has no attempt under way.
    """
    try:
        content = (text or "").encode()
        return msgspec.json.decode(base64.urlsafe_b64decode(content + b"=" * (-len(content) % 4)), type=LoginAttempt)
    except (ValueError, msgspec.DecodeError):
        raise OidcFailed("this browser has not begun it, or it took longer than ten minutes") from None


def landing_path(wanted: str | None) -> str:
    """Return the path to show after a sign-in: the wanted path if it is below the dashboard's, else the dashboard.

    Other addresses would let a link lead people from a trusted sign-in to a page of an attacker.
    """
    if wanted is None or not wanted.startswith(DASHBOARD_PATH) or len(wanted) > MAX_NEXT_CHARACTERS:
        return DASHBOARD_PATH
    plain = unquote(wanted.partition("?")[0].partition("#")[0])
    segments = plain.split("/")
    is_plain = all("!" <= character <= "~" and character != "\\" for character in wanted)
    return wanted if is_plain and "\\" not in plain and not {".", ".."}.intersection(segments) else DASHBOARD_PATH


class CodeFlow:
    """Signs people in at the issuer."""

    def __init__(self, issuer: Issuer, rules: CodeFlowRules) -> None:
        self.rules = rules
        self._issuer = issuer

    async def address(self, attempt: LoginAttempt, redirect_uri: str) -> str:
        """Return the address of the issuer at which a person signs in.

        Raises:
            FetchFailed: The issuer is unavailable.
        """
        endpoint = await self._endpoint("authorization_endpoint")
        challenge = _base64url(hashlib.sha256(attempt.verifier.encode()).digest())
        query = {
            "response_type": "code",
            "client_id": self.rules.client_id,
            "redirect_uri": redirect_uri,
            "scope": self.rules.scope,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def finish(self, attempt: LoginAttempt, answer: Mapping[str, str | None], redirect_uri: str) -> Principal:
        """Return the principal who has signed in.

        Args:
            attempt: The attempt of the browser.
            answer: The issuer's answer: `code` and `state`, or `error`, and perhaps `iss`.
            redirect_uri: The same address as at the begin.

        Raises:
            OidcFailed: The answer, or a token, is not valid.
            FetchFailed: The issuer is unavailable.
        """
        state, code, issuer = answer.get("state"), answer.get("code"), answer.get("iss")
        if state is None or not hmac.compare_digest(state.encode(), attempt.state.encode()):
            raise OidcFailed("the state is not that of this browser")
        if issuer is not None and issuer != self._issuer.rules.issuer:
            raise OidcFailed("the answer came from another issuer")
        if code is None:
            raise OidcFailed("the issuer has refused it")
        tokens = await self._exchange(code, attempt.verifier, redirect_uri)
        claims = await self._id_claims(tokens.get("id_token"), attempt.nonce)
        return self._issuer.claims.principal(await self._with_roles(claims, tokens.get("access_token")))

    async def _exchange(self, code: str, verifier: str, redirect_uri: str) -> Mapping[str, Any]:
        """Exchange a code for tokens; the issuer checks code, verifier and address."""
        form = {"grant_type": "authorization_code", "code": code, "code_verifier": verifier}
        form["redirect_uri"] = redirect_uri
        headers: tuple[tuple[str, str], ...] = ()
        if self.rules.client_secret is not None and await self._takes_basic():
            pair = f"{quote_plus(self.rules.client_id)}:{quote_plus(self.rules.client_secret)}"
            headers = (("authorization", f"Basic {base64.b64encode(pair.encode()).decode()}"),)
        else:
            form["client_id"] = self.rules.client_id
            form |= {} if self.rules.client_secret is None else {"client_secret": self.rules.client_secret}
        url = await self._endpoint("token_endpoint")
        try:
            document = await self._issuer.fetch_discovered(
                url, limit=_MAX_TOKEN_ANSWER_BYTES, body=urlencode(form).encode(), headers=headers
            )
            found = msgspec.json.decode(document)
        except FetchFailed as error:
            if error.status is None or error.status >= 500:
                raise
            raise OidcFailed("the issuer does not accept the code") from None
        except msgspec.DecodeError:
            raise OidcFailed("the issuer's answer is not JSON") from None
        except Invalid as error:  # an address that the engine never connects to
            raise FetchFailed(str(error)) from None
        if not isinstance(found, dict):
            raise OidcFailed("the issuer's answer is not an object")
        return found

    async def _takes_basic(self) -> bool:
        methods = (await self._issuer.metadata()).get("token_endpoint_auth_methods_supported")
        return not isinstance(methods, list) or "client_secret_basic" in methods

    async def _endpoint(self, name: str) -> str:
        url = (await self._issuer.metadata()).get(name)
        if not isinstance(url, str):
            raise FetchFailed(f"the discovery document of {self._issuer.rules.issuer} has no {name}")
        try:
            checked_url(url, f"the {name} of the issuer")
        except Invalid as error:
            raise FetchFailed(str(error)) from None
        return url

    async def _id_claims(self, token: object, nonce: str) -> dict[str, Any]:
        if not isinstance(token, str):
            raise OidcFailed("the issuer sent no ID token")
        rules = TokenRules(self._issuer.rules.issuer, self.rules.client_id, id_token=True)
        try:
            claims = await self._issuer.verify(token, rules)
        except InvalidToken as error:
            raise OidcFailed(str(error)) from None
        found, party = claims.get("nonce"), claims.get("azp")
        if not isinstance(found, str) or not hmac.compare_digest(found.encode(), nonce.encode()):
            raise OidcFailed("the nonce is not that of this browser")
        if party is not None and party != self.rules.client_id:
            raise OidcFailed("the ID token is for another client")
        return claims

    async def _with_roles(self, claims: dict[str, Any], access_token: object) -> dict[str, Any]:
        """Return the claims of an ID token; claims with roles that it lacks come from a valid access token."""
        rules = self._issuer.claims
        named = (name for name in (rules.roles_claim, rules.namespaces_claim) if name is not None)
        missing = [name for name in named if claim_of(claims, name) is None]
        if not missing or not isinstance(access_token, str) or not is_token(access_token):
            return claims
        try:
            further = await self._issuer.verify(access_token, self._issuer.rules)
        except InvalidToken:
            return claims
        return {**claims, **{name: claim_of(further, name) for name in missing}}


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
