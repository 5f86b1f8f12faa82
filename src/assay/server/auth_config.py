"""The credentials that an operator accepts: a single value, checked before anything is opened."""

import re
from dataclasses import dataclass
from typing import Final

from assay.api.authentication import AuthSettings
from assay.auth.claims import ClaimRules, parse_mapping
from assay.auth.issuer import check_issuer
from assay.core.model.errors import Invalid

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9-]{1,64}\Z")
_NEEDS_ISSUER: Final = {
    "audience": "--auth-audience",
    "key_set_url": "--auth-jwks-url",
    "header": "--auth-header",
    "roles_claim": "--auth-roles-claim",
    "namespaces_claim": "--auth-namespaces-claim",
    "roles": "--auth-role",
}


@dataclass(frozen=True)
class AuthConfig:
    """The accepted keys and tokens, and the roles given by the claims of a token."""

    api_key: bool = False
    issuer: str | None = None
    audience: str | None = None
    key_set_url: str | None = None
    header: str | None = None
    roles_claim: str | None = None
    namespaces_claim: str | None = None
    roles: tuple[str, ...] = ()
    """Meanings of values of the roles claim, as `VALUE=ROLE[@NAMESPACE]`."""

    def checked(self) -> "AuthConfig":
        """Return the value itself.

        Raises:
            Invalid: A flag needs another flag, or has a value that cannot be parsed.
        """
        if self.issuer is None:
            for name, flag in _NEEDS_ISSUER.items():
                if getattr(self, name):
                    raise Invalid(f"{flag} needs --auth-issuer", code="bad_flags", field=name)
        else:
            check_issuer(self.issuer, self.key_set_url)
        if self.header is not None and (not _HEADER_NAME.match(self.header) or self.header.lower() == "authorization"):
            raise Invalid(
                f"--auth-header {self.header!r} is not the name of a further header, such as Cf-Access-Jwt-Assertion",
                code="bad_flags",
                field="header",
            )
        if self.roles and self.roles_claim is None:
            raise Invalid("--auth-role needs --auth-roles-claim", code="bad_flags", field="roles")
        self.claims  # noqa: B018 - reads the meanings of roles
        return self

    @property
    def is_on(self) -> bool:
        """Return whether callers need a credential."""
        return self.settings.is_on

    @property
    def settings(self) -> AuthSettings:
        """Return the settings of the API."""
        header = None if self.header is None else self.header.lower().encode("ascii", "replace")
        return AuthSettings(self.api_key, self.issuer, header)

    @property
    def claims(self) -> ClaimRules:
        """Return the rules for the claims of tokens."""
        return ClaimRules(self.roles_claim, self.namespaces_claim, dict(map(parse_mapping, self.roles)))

    @property
    def described(self) -> str:
        """Return the text of the mode that `assay serve` prints at its start."""
        modes = [*([f"jwt (issuer: {self.issuer})"] if self.issuer else []), *(["api-key"] if self.api_key else [])]
        return " + ".join(modes) or "no-auth (open access)"
