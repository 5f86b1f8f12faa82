"""Roles from the claims of a token."""

from typing import Any

import pytest

from assay.auth.claims import ClaimRules, RoleGrant, parse_mapping
from assay.auth.permissions import Role
from assay.core.model.errors import Invalid


def roles(claims: dict[str, Any], **rules: Any) -> dict[str, set[str]]:
    return {name: set(held) for name, held in ClaimRules(**rules).roles(claims).items()}


def test_without_a_roles_claim_a_token_is_an_admin():
    assert roles({}) == {"*": {"admin"}}
    assert roles({"spaces": ["a", "b"]}, namespaces_claim="spaces") == {"a": {"admin"}, "b": {"admin"}}
    assert roles({}, namespaces_claim="spaces") == {}


def test_values_are_roles_with_or_without_a_namespace():
    assert roles({"r": "reader shop:admin nonsense :admin shop:"}, roles_claim="r") == {
        "*": {"reader"},
        "shop": {"admin"},
    }
    assert roles({"r": ["worker", "reader", 5]}, roles_claim="r") == {"*": {"worker", "reader"}}


def test_roles_without_a_namespace_hold_in_those_of_the_namespaces_claim():
    claims = {"r": ["operator", "c:reader"], "n": "a b"}
    assert roles(claims, roles_claim="r", namespaces_claim="n") == {
        "a": {"operator"},
        "b": {"operator"},
        "c": {"reader"},
    }


def test_a_claim_is_found_by_its_whole_name_or_by_a_path():
    nested = {"realm_access": {"roles": ["reader"]}, "https://example.com/roles": ["admin"], "a.b": ["worker"]}
    assert roles(nested, roles_claim="realm_access.roles") == {"*": {"reader"}}
    assert roles(nested, roles_claim="https://example.com/roles") == {"*": {"admin"}}
    assert roles({**nested, "a": {"b": ["admin"]}}, roles_claim="a.b") == {"*": {"worker"}}
    assert roles(nested, roles_claim="realm_access.missing") == {}


def test_an_operator_gives_other_values_a_meaning():
    mapped = dict([parse_mapping("CN=ops,O=x=operator@shop"), parse_mapping("staff=reader")])
    assert mapped == {"CN=ops,O=x": RoleGrant(Role.OPERATOR, "shop"), "staff": RoleGrant(Role.READER)}
    assert roles({"g": ["staff", "CN=ops,O=x"]}, roles_claim="g", mapped=mapped) == {
        "*": {"reader"},
        "shop": {"operator"},
    }


@pytest.mark.parametrize("text", ["", "staff", "=admin", "staff=root", "staff=admin@"])
def test_a_mapping_of_another_form_is_refused(text: str):
    with pytest.raises(Invalid):
        parse_mapping(text)


def test_the_user_is_the_first_name_in_the_token():
    rules = ClaimRules()
    assert rules.principal({"sub": "1", "email": "a@example.com", "exp": 5}).user == "a@example.com"
    assert rules.principal({"sub": "1", "preferred_username": ""}).user == "1"
    assert rules.principal({"exp": 5}).expires_at == 5_000_000
