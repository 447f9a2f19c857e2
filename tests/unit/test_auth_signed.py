"""Identities that are handed out again: only while they say what a new one would, and live long enough."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

from joserfc.jwk import OKPKey

from skein_auth.signing.keyring import MIN_SECONDS, IdentityCache
from skein_kit.identity.identity_token import LIFETIME_SECONDS, Caller

AT = 1_800_000_000.0


def key_of(name: str) -> OKPKey:
    return OKPKey.generate_key("Ed25519", parameters={"kid": name})


KEY = key_of("one")
CALLER = Caller(principal="api_key:x", tenant_id=uuid4(), permissions=frozenset({"memory.read"}))


def test_the_same_caller_gets_the_same_token_for_half_its_life() -> None:
    signed = IdentityCache()
    first, ends = signed.get_or_sign(CALLER, key=KEY, at=AT)

    last = AT + LIFETIME_SECONDS - MIN_SECONDS
    again = [signed.get_or_sign(CALLER, key=KEY, at=at) for at in (AT, last)]
    later, later_ends = signed.get_or_sign(CALLER, key=KEY, at=last + 1)

    assert again == [(first, ends)] * 2
    assert later != first
    assert later_ends == last + 1 + LIFETIME_SECONDS


def test_whatever_a_token_says_makes_it_another() -> None:
    signed = IdentityCache()
    others = [
        signed.get_or_sign(CALLER, key=KEY, at=AT),
        signed.get_or_sign(replace(CALLER, permissions=frozenset()), key=KEY, at=AT),
        signed.get_or_sign(replace(CALLER, tenant_id=uuid4()), key=KEY, at=AT),
        signed.get_or_sign(replace(CALLER, is_tenant_deleted=True), key=KEY, at=AT),
        signed.get_or_sign(CALLER, key=key_of("two"), at=AT),
        signed.get_or_sign(CALLER, key=KEY, at=AT, until=AT + 50),
    ]

    assert len({token for token, _ in others}) == len(others)


def test_a_credential_that_ends_soon_ends_its_tokens() -> None:
    signed = IdentityCache()

    _, ends = signed.get_or_sign(CALLER, key=KEY, at=AT, until=AT + 10)

    assert ends == AT + 10


def test_a_clock_that_was_set_back_makes_a_new_token() -> None:
    signed = IdentityCache()
    first, _ = signed.get_or_sign(CALLER, key=KEY, at=AT + 100)

    again, ends = signed.get_or_sign(CALLER, key=KEY, at=AT)

    assert again != first
    assert ends == AT + LIFETIME_SECONDS
