from __future__ import annotations

import asyncio
import dataclasses
import json
import time
import uuid

import pytest
from joserfc.jwk import OKPKey

from skein_kit.errors import CredentialExpired, CredentialInvalid, DatabaseUnavailable
from skein_kit.identity.identity_token import Caller, IdentityTokenVerifier, sign_identity_token

CALLER = Caller(principal="api_key:1", tenant_id=uuid.uuid4(), permissions=frozenset({"memory.read"}), agent_id="voice")


def new_key(key_id: str) -> OKPKey:
    made = OKPKey.generate_key("Ed25519", private=True)
    return OKPKey.import_key({**made.as_dict(private=True), "kid": key_id})


class Auth:
    """The keys that auth would list, how often they were asked for, and whether auth answers."""

    def __init__(self, *keys: OKPKey) -> None:
        self.keys = list(keys)
        self.call_count = 0
        self.answers = True

    async def fetch(self) -> dict[str, str]:
        self.call_count += 1
        await asyncio.sleep(0)
        if not self.answers:
            raise DatabaseUnavailable
        return {str(key.kid): json.dumps(key.as_dict(private=False)) for key in self.keys}


async def test_a_token_says_who_calls() -> None:
    key, now = new_key("k"), time.time()
    token, ends = sign_identity_token(CALLER, key=key, at=now)

    assert await IdentityTokenVerifier(Auth(key).fetch).verify(token) == CALLER
    assert 59 <= ends - now <= 60


async def test_calls_that_come_together_share_one_fetch_of_the_keys() -> None:
    key = new_key("k")
    auth = Auth(key)
    verifier = IdentityTokenVerifier(auth.fetch)
    tokens = [
        sign_identity_token(dataclasses.replace(CALLER, agent_id=str(n)), key=key, at=time.time())[0] for n in range(10)
    ]

    callers = await asyncio.gather(*(verifier.verify(token) for token in tokens))

    assert [caller.agent_id for caller in callers] == [str(n) for n in range(10)]
    assert auth.call_count == 1


@pytest.mark.system
async def test_a_key_that_was_made_a_moment_ago_is_fetched_not_refused() -> None:
    auth = Auth(new_key("first"))
    verifier = IdentityTokenVerifier(auth.fetch)
    await verifier.verify(sign_identity_token(CALLER, key=auth.keys[0], at=time.time())[0])
    auth.keys.append(new_key("second"))

    assert await verifier.verify(sign_identity_token(CALLER, key=auth.keys[1], at=time.time())[0]) == CALLER


@pytest.mark.system
async def test_a_key_that_auth_lists_no_more_verifies_nothing() -> None:
    """A signing key that leaked is rotated away: its tokens must be refused even when no other key is asked for."""
    auth = Auth(new_key("leaked"))
    verifier = IdentityTokenVerifier(auth.fetch, key_max_age_seconds=0.0)
    forged = [
        sign_identity_token(dataclasses.replace(CALLER, agent_id=str(n)), key=auth.keys[0], at=time.time())[0]
        for n in range(2)
    ]
    await verifier.verify(forged[0])
    auth.keys = [new_key("new")]

    with pytest.raises(CredentialInvalid):
        await verifier.verify(forged[1])


@pytest.mark.system
async def test_a_caller_is_not_called_invalid_while_auth_does_not_answer() -> None:
    key = new_key("k")
    auth = Auth(key)
    auth.answers = False
    verifier = IdentityTokenVerifier(auth.fetch)
    token, _ = sign_identity_token(CALLER, key=key, at=time.time())

    results = await asyncio.gather(*(verifier.verify(token) for _ in range(3)), return_exceptions=True)
    auth.answers = True

    assert all(isinstance(result, DatabaseUnavailable) for result in results)
    assert await verifier.verify(token) == CALLER


async def test_a_token_of_a_key_that_auth_does_not_have_is_invalid() -> None:
    token, _ = sign_identity_token(CALLER, key=new_key("k"), at=time.time())

    for known in (new_key("k"), new_key("other")):
        with pytest.raises(CredentialInvalid):
            await IdentityTokenVerifier(Auth(known).fetch).verify(token)


async def test_a_token_past_its_end_is_expired() -> None:
    key = new_key("k")
    token, _ = sign_identity_token(CALLER, key=key, at=time.time() - 120)

    with pytest.raises(CredentialExpired):
        await IdentityTokenVerifier(Auth(key).fetch).verify(token)


def test_no_token_outlives_the_credential_that_it_stands_for() -> None:
    _, ends = sign_identity_token(CALLER, key=new_key("k"), at=1000.5, until=1010.9)

    assert ends == 1010
