"""The issuer of tokens: fetches its documents, keeps its key set fresh, and verifies the tokens of callers."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from assay.auth.addresses import Address, check_configured, check_discovered, checked_url, is_private
from assay.auth.claims import ClaimRules
from assay.auth.fetching import CheckAddress, FetchFailed, fetch, resolve
from assay.auth.json_web_tokens import InvalidToken, TokenHeader, TokenRules, header_of, key_for, verify
from assay.auth.key_sets import KEY_SET_FRESH_TIME, MAX_KEY_SET_BYTES, KeySet, KeySetCache, parse_key_set
from assay.auth.permissions import Principal
from assay.auth.verified_tokens import VerifiedTokens
from assay.core.model.errors import AssayError, Invalid
from assay.core.model.ids import SECOND, Time

log = logging.getLogger("assay.auth")

FAILED_METADATA_TIME: Final[Time] = 2 * SECOND
"""The time for which a failed fetch of the discovery document is not repeated."""
_DISCOVERY: Final = "/.well-known/openid-configuration"


class Issuer:
    """An issuer of accepted bearer tokens."""

    def __init__(
        self, rules: TokenRules, claims: ClaimRules, now: Callable[[], Time], *, key_set_url: str | None = None
    ) -> None:
        self.rules = rules
        self.claims = claims
        self._now = now
        self._key_set_url = key_set_url
        self._keys = KeySetCache()
        self._verified = VerifiedTokens()
        self._fetching = asyncio.Lock()
        self._metadata: tuple[dict[str, Any] | FetchFailed, Time] | None = None
        self._reading_metadata = asyncio.Lock()

    async def authenticate(self, token: str) -> Principal:
        """Return the principal of a valid token.

        Raises:
            InvalidToken: The token is not valid.
        """
        now = self._now()
        known = self._verified.find(token, self._keys.generation, now)
        if known is not None:
            return known
        claims = await self.verify(token, self.rules)
        principal = self.claims.principal(claims)
        self._verified.add(token, principal, self._keys.generation, now)
        return principal

    async def verify(self, token: str, rules: TokenRules) -> dict[str, Any]:
        """Return the claims of a token of this issuer, validated by these rules.

        Raises:
            InvalidToken: The token is not valid, or the keys of the issuer are unavailable.
        """
        header = header_of(token)
        keys = await self._key_set(header)
        return verify(token, header, key_for(header, keys), rules, self._now())

    async def _key_set(self, header: TokenHeader) -> KeySet:
        """Return the key set; fetch the set if it is old or lacks the token's key, and a fetch is allowed."""
        if self._is_due(header):
            async with self._fetching:
                # Check again under the lock: another caller may have fetched the set meanwhile.
                if self._keys.is_due(self._now()) or self._lacks(header):
                    await self._fetch()
        if self._keys.current is None:
            raise InvalidToken("the keys of the issuer cannot be fetched")
        return self._keys.current

    def _is_due(self, header: TokenHeader) -> bool:
        now = self._now()
        if self._keys.is_due(now):
            return True
        return header.kid is not None and self._lacks(header) and self._keys.may_fetch_for(header.kid, now)

    def _lacks(self, header: TokenHeader) -> bool:
        keys = self._keys.current
        return keys is None or (header.kid is not None and not keys.has(header.kid))

    async def _fetch(self) -> None:
        try:
            self._keys.store(parse_key_set(await self._key_set_document()), self._now())
        except AssayError as error:
            self._keys.fail(self._now())
            log.warning("the key set of %s could not be fetched: %s", self.rules.issuer, error)

    async def _key_set_document(self) -> bytes:
        if self._key_set_url is not None:
            return await fetch(self._key_set_url, check_configured, limit=MAX_KEY_SET_BYTES)
        address = (await self._read_metadata()).get("jwks_uri")
        if not isinstance(address, str):
            raise FetchFailed(f"the discovery document of {self.rules.issuer} names no key set")
        return await self.fetch_discovered(address, limit=MAX_KEY_SET_BYTES)

    async def metadata(self) -> dict[str, Any]:
        """Return the discovery document of the issuer, fetched at most every ten minutes, or seconds after a failure.

        Anybody may begin a sign-in, so attempts must not cost a fetch each.

        Raises:
            FetchFailed: The document is unavailable, or names another issuer.
        """
        async with self._reading_metadata:
            if self._metadata is None or self._now() >= self._metadata[1]:
                try:
                    self._metadata = await self._read_metadata(), self._now() + KEY_SET_FRESH_TIME
                except FetchFailed as error:
                    self._metadata = error, self._now() + FAILED_METADATA_TIME
                    log.warning("the discovery document of %s could not be fetched: %s", self.rules.issuer, error)
        found = self._metadata[0]
        if isinstance(found, FetchFailed):
            raise FetchFailed(str(found), status=found.status)
        return found

    async def _read_metadata(self) -> dict[str, Any]:
        url = self.rules.issuer.rstrip("/") + _DISCOVERY
        checked_url(url, "the issuer")
        try:
            found = msgspec.json.decode(await fetch(url, check_configured, limit=MAX_KEY_SET_BYTES))
        except msgspec.DecodeError:
            raise FetchFailed(f"{url} is not JSON") from None
        if not isinstance(found, dict) or found.get("issuer") != self.rules.issuer:
            raise FetchFailed(f"the discovery document at {url} names another issuer")
        return found

    async def fetch_discovered(self, url: str, *, limit: int, **request: Any) -> bytes:
        """Return the document at a URL named by the issuer: checked more strictly than a URL of the operator."""
        private = is_private(await resolve(self.rules.issuer))
        return await fetch(url, self._check_discovered(url, private), limit=limit, **request)

    def _check_discovered(self, url: str, private: bool) -> CheckAddress:
        def check(address: Address) -> None:
            check_discovered(url, address, issuer=self.rules.issuer, issuer_is_private=private)

        return check


def check_issuer(issuer: str, key_set_url: str | None) -> None:
    """Raise `Invalid` if the operator's URLs are not valid URLs of an issuer."""
    checked_url(issuer, "--auth-issuer")
    if key_set_url is not None:
        checked_url(key_set_url, "--auth-jwks-url")
    if issuer != issuer.strip():
        raise Invalid("--auth-issuer has blanks around it")
