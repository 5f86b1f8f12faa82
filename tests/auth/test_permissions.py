"""Roles grant permissions in namespaces; a namespace without a role is hidden."""

import pytest

from assay.auth.permissions import GRANTED, LOWEST_ROLE, UNRESTRICTED, Permission, Principal, Role


def principal(**roles: Role) -> Principal:
    return Principal("ada", "assay_00000000...", {name: frozenset({role}) for name, role in roles.items()})


def test_each_role_grants_its_permissions():
    assert {role: {permission.value for permission in granted} for role, granted in GRANTED.items()} == {
        "reader": {"read"},
        "worker": {"work"},
        "operator": {"read", "work", "act"},
        "admin": {"read", "work", "act", "manage"},
    }


@pytest.mark.parametrize("permission", Permission)
def test_the_lowest_role_grants_its_permission_and_no_smaller_role_does(permission: Permission):
    lowest = LOWEST_ROLE[permission]
    assert permission in GRANTED[lowest]
    assert all(permission not in granted for granted in GRANTED.values() if granted < GRANTED[lowest])


def test_roles_hold_in_their_namespace_only():
    ada = principal(shop=Role.OPERATOR)
    assert ada.allows(Permission.ACT, "shop")
    assert not ada.allows(Permission.MANAGE, "shop")
    assert not ada.allows(Permission.READ, "other")
    assert ada.has_role_in("shop")
    assert not ada.has_role_in("other")
    assert ada.namespaces_with(Permission.READ) == {"shop"}
    assert not ada.covers(Permission.READ, ["shop", "other"])


def test_a_role_of_all_namespaces_holds_everywhere_and_adds_up():
    ada = Principal("ada", None, {"*": frozenset({Role.READER}), "shop": frozenset({Role.WORKER})})
    assert ada.permissions_in("shop") == {Permission.READ, Permission.WORK}
    assert ada.permissions_in("new") == {Permission.READ}
    assert ada.namespaces_with(Permission.READ) is None


def test_a_reader_who_works_is_shown_as_reader():
    both = Principal("ada", None, {"shop": frozenset({Role.READER, Role.WORKER}), "none": frozenset()})
    assert both.shown_roles() == {"shop": "reader"}


def test_without_authentication_everybody_is_an_admin():
    assert UNRESTRICTED.allows(Permission.MANAGE, "*")
    assert UNRESTRICTED.shown_roles() == {"*": "admin"}
