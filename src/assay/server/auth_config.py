"""The credentials that an operator accepts: a single value, checked before anything is opened."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from assay.api.authentication import AuthSettings
from assay.auth.claims import ClaimRules, parse_mapping
from assay.auth.code_flow import DEFAULT_SCOPE, CodeFlowRules
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
    "client_id": "--auth-client-id",
}
_SECRET_VARIABLE: Final = "ASSAY_AUTH_CLIENT_SECRET"  # noqa: S105  # the name of a variable
_SECRET_FILE_VARIABLE: Final = "ASSAY_AUTH_CLIENT_SECRET_FILE"  # noqa: S105  # the name of a variable


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
    client_id: str | None = None
    """The engine's id at the issuer, for people who sign in there."""
    client_secret: str | None = field(default=None, repr=False)
    scope: str | None = None
    label: str | None = None
    """The name of the issuer on the sign-in page."""

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
        self._check_client()
        return self

    def _check_client(self) -> None:
        for flag, value in (("--auth-scope", self.scope), ("--auth-label", self.label)):
            if value is not None and self.client_id is None:
                raise Invalid(f"{flag} needs --auth-client-id", code="bad_flags", field="client_id")
        if self.scope is not None and "openid" not in self.scope.split():
            text = f"--auth-scope {self.scope!r} lacks openid, without which an issuer sends no ID token"
            raise Invalid(text, code="bad_flags", field="scope")
        if self.label is not None and not (self.label.strip() and self.label.isprintable()):
            raise Invalid("--auth-label must be a text to show", code="bad_flags", field="label")

    @property
    def client(self) -> CodeFlowRules | None:
        """Return the engine as a client of the issuer; None if people cannot sign in there."""
        if self.client_id is None or self.issuer is None:
            return None
        label = self.label or urlsplit(self.issuer).hostname or self.issuer
        return CodeFlowRules(self.client_id, label, self.client_secret, self.scope or DEFAULT_SCOPE)

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


def client_secret(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the engine's secret at the issuer, from a file or a variable: never from a flag, which others can see.

    Raises:
        Invalid: The file cannot be read, or is empty.
    """
    file = environment.get(_SECRET_FILE_VARIABLE)
    if not file:
        return environment.get(_SECRET_VARIABLE) or None
    try:
        found = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(
            f"{_SECRET_FILE_VARIABLE} names {file}, which cannot be read: {error}", code="bad_flags"
        ) from None
    if not found:
        raise Invalid(f"{_SECRET_FILE_VARIABLE} names {file}, which is empty", code="bad_flags")
    return found
