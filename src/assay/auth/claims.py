"""Roles from the claims of a token, by the operator's rules."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from assay.auth.permissions import ALL_NAMESPACES, Principal, Role
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND, Time

BY_TOKEN: Final = "jwt"  # noqa: S105 - the name of a kind of credential
"""The credential of a principal with a token."""
_NAMES: Final = ("preferred_username", "email", "sub")


class RoleGrant(msgspec.Struct, frozen=True):
    """A role in a namespace; None for all namespaces of the token."""

    role: Role
    namespace: str | None = None


class ClaimRules(msgspec.Struct, frozen=True):
    """The operator's rules for the claims of tokens."""

    roles_claim: str | None = None
    namespaces_claim: str | None = None
    mapped: Mapping[str, RoleGrant] = {}
    """Grants by value of the roles claim, such as the name of a group."""

    def principal(self, claims: Mapping[str, Any]) -> Principal:
        """Return the principal of a valid token with these claims."""
        return Principal(
            user=_user(claims),
            credential=BY_TOKEN,
            roles=self.roles(claims),
            expires_at=_expiry(claims),
        )

    def roles(self, claims: Mapping[str, Any]) -> dict[str, frozenset[Role]]:
        """Return the roles by namespace; empty if a configured claim is missing or names no role."""
        spaces = self._namespaces(claims)
        if self.roles_claim is None:
            return dict.fromkeys(spaces, frozenset({Role.ADMIN}))
        joined: dict[str, set[Role]] = {}
        for value in _values(claim_of(claims, self.roles_claim)):
            grant = self._grant(value)
            if grant is not None:
                for namespace in spaces if grant.namespace is None else (grant.namespace,):
                    joined.setdefault(namespace, set()).add(grant.role)
        return {namespace: frozenset(held) for namespace, held in joined.items()}

    def _namespaces(self, claims: Mapping[str, Any]) -> tuple[str, ...]:
        if self.namespaces_claim is None:
            return (ALL_NAMESPACES,)
        return tuple(_values(claim_of(claims, self.namespaces_claim)))

    def _grant(self, value: str) -> RoleGrant | None:
        """Return the grant of a value: a mapped value, a role, or `NAMESPACE:ROLE`; None for any other text."""
        if value in self.mapped:
            return self.mapped[value]
        namespace, colon, role = value.rpartition(":")
        if role not in set(Role) or (colon and not namespace):
            return None
        return RoleGrant(Role(role), namespace or None)


def parse_mapping(text: str) -> tuple[str, RoleGrant]:
    """Return value and grant of `VALUE=ROLE[@NAMESPACE]`.

    Raises:
        Invalid: The text has another form, or names an unknown role.
    """
    value, equals, grant = text.rpartition("=")
    role, at, namespace = grant.partition("@")
    if not equals or not value or role not in set(Role) or (at and not namespace):
        raise Invalid(
            f"{text!r} is not VALUE=ROLE or VALUE=ROLE@NAMESPACE; roles are {', '.join(Role)}", field="auth_role"
        )
    return value, RoleGrant(Role(role), namespace or None)


def claim_of(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its whole name or by a dotted path, such as `realm_access.roles`."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def _values(claim: Any) -> Iterable[str]:
    if isinstance(claim, str):
        return claim.split()
    if isinstance(claim, list):
        return [value for value in claim if isinstance(value, str)]
    return ()


def _user(claims: Mapping[str, Any]) -> str | None:
    return next((claims[name] for name in _NAMES if isinstance(claims.get(name), str) and claims[name]), None)


def _expiry(claims: Mapping[str, Any]) -> Time | None:
    expires = claims.get("exp")
    return int(expires * SECOND) if isinstance(expires, int | float) else None
