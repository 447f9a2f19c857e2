from __future__ import annotations

import dataclasses
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from fix_catalogue import over
from hypothesis import given
from hypothesis import strategies as st

from skein_auth import permissions
from skein_auth.api_keys.model import UNKNOWN_API_KEY, ApiKeyToken, StoredApiKey
from skein_auth.encryption import DecryptionError, SecretCipher
from skein_auth.settings import AuthSettings, SystemKeys
from skein_kit.errors import CredentialExpired, CredentialInvalid, FieldInvalid, PermissionEscalation
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import (
    AGENT_PERMISSIONS,
    OPERATOR_PERMISSIONS,
    SYSTEM_PERMISSIONS,
    TENANT_PERMISSIONS,
)
from skein_kit.settings import SettingInvalid

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SOON = timedelta(seconds=1)
KEY = ApiKeyToken.new(uuid.uuid4(), uuid.uuid4())
GOOD = StoredApiKey(
    secret_hash=KEY.secret_hash(), permissions=frozenset({"memory.read"}), expire_time=None, revoke_time=None
)


def creator(*allowed: str, agent_id: str = "") -> Caller:
    return Caller(principal="api_key:x", tenant_id=uuid.uuid4(), permissions=frozenset(allowed), agent_id=agent_id)


# Permissions


@given(st.sets(st.sampled_from(sorted(OPERATOR_PERMISSIONS | SYSTEM_PERMISSIONS))))
def test_a_key_without_named_permissions_has_its_creators_and_an_agents_the_least(allowed: set[str]) -> None:
    assert set(permissions.permissions_to_grant([], "", creator(*allowed))) == allowed & TENANT_PERMISSIONS
    assert set(permissions.permissions_to_grant([], "cook", creator(*allowed))) == allowed & AGENT_PERMISSIONS


@given(
    st.sets(st.sampled_from(sorted(TENANT_PERMISSIONS)), min_size=1),
    st.sets(st.sampled_from(sorted(OPERATOR_PERMISSIONS))),
)
def test_no_key_carries_more_than_its_creator_has(requested: set[str], allowed: set[str]) -> None:
    if requested <= allowed:
        assert permissions.permissions_to_grant(sorted(requested), "", creator(*allowed)) == sorted(requested)
    else:
        with pytest.raises(PermissionEscalation):
            permissions.permissions_to_grant(sorted(requested), "", creator(*allowed))


@over("permission", ["operator", "system", "memory.*", "Memory.read", ""])
def test_a_permission_that_no_tenant_s_key_can_carry_is_refused_by_its_field(permission: str) -> None:
    with pytest.raises(FieldInvalid) as caught:
        permissions.permissions_to_grant(
            ["memory.read", permission], "", creator(*OPERATOR_PERMISSIONS, *SYSTEM_PERMISSIONS)
        )

    assert [field for field, _ in caught.value.violations] == ["permissions[1]"]


# Judging a presented key


def test_a_good_key_is_accepted() -> None:
    GOOD.verify(KEY, NOW)


def test_a_key_that_is_not_there_is_refused_like_a_wrong_one() -> None:
    with pytest.raises(CredentialInvalid):
        UNKNOWN_API_KEY.verify(KEY, NOW)


def test_a_key_is_good_until_it_expires() -> None:
    stored = dataclasses.replace(GOOD, expire_time=NOW)

    stored.verify(KEY, NOW - SOON)
    with pytest.raises(CredentialExpired):
        stored.verify(KEY, NOW)


def test_only_the_right_secret_learns_that_a_key_has_expired() -> None:
    stored = dataclasses.replace(GOOD, expire_time=NOW)

    with pytest.raises(CredentialInvalid):
        stored.verify(dataclasses.replace(KEY, secret=bytes(32)), NOW + SOON)


def test_a_revoked_key_is_invalid_even_after_its_end() -> None:
    stored = dataclasses.replace(GOOD, expire_time=NOW, revoke_time=NOW - SOON)

    with pytest.raises(CredentialInvalid):
        stored.verify(KEY, NOW + SOON)


# Sealing


@given(st.binary(max_size=500), st.text())
def test_an_encrypted_value_opens_under_its_name_alone(secret: bytes, name: str) -> None:
    sealer = SecretCipher(SystemKeys.of("k" * 32))

    sealed = sealer.encrypt(secret, name=name)

    assert sealer.decrypt(sealed, name=name) == secret
    with pytest.raises(DecryptionError):
        sealer.decrypt(sealed, name=name + "x")


@given(st.binary(min_size=1, max_size=100), st.data())
def test_sealed_bytes_notice_every_change(secret: bytes, data: st.DataObject) -> None:
    sealer = SecretCipher(SystemKeys.of("k" * 32))
    sealed = bytearray(sealer.encrypt(secret, name="n"))
    place = data.draw(st.integers(0, len(sealed) - 1))
    sealed[place] ^= data.draw(st.integers(1, 255))

    with pytest.raises(DecryptionError):
        sealer.decrypt(bytes(sealed), name="n")


def test_the_same_secret_is_never_sealed_the_same_way() -> None:
    sealer = SecretCipher(SystemKeys.of("k" * 32))

    assert sealer.encrypt(b"secret", name="n") != sealer.encrypt(b"secret", name="n")


def test_the_system_key_before_still_opens_and_no_longer_seals() -> None:
    old, new = SecretCipher(SystemKeys.of("o" * 32)), SecretCipher(SystemKeys.of("n" * 32, "o" * 32))

    assert new.decrypt(old.encrypt(b"secret", name="n"), name="n") == b"secret"
    with pytest.raises(DecryptionError):
        old.decrypt(new.encrypt(b"secret", name="n"), name="n")


# Settings


@over(
    ("current", "previous", "variable"),
    [
        ("", "", "SKEIN_SYSTEM_KEY"),
        ("short", "", "SKEIN_SYSTEM_KEY"),
        ("k" * 32, "short", "SKEIN_SYSTEM_KEY_PREVIOUS"),
    ],
)
def test_a_system_key_that_cannot_be_used_is_named_with_the_way_to_make_one(
    current: str, previous: str, variable: str
) -> None:
    with pytest.raises(SettingInvalid, match=f"{variable} .* make one with"):
        SystemKeys.of(current, previous)


def test_system_keys_are_not_shown_by_accident() -> None:
    key = "k" * 32

    assert key not in repr(SystemKeys.of(key, key))
    assert key not in repr(AuthSettings(system_key_previous=key))
