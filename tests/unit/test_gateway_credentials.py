"""What the gateway remembers of callers, with auth played by the test and real tokens."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import grpc
import pytest
from fix_catalogue import over
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio
from joserfc import jwt
from joserfc.jwk import OKPKey, RSAKey

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein_auth import tenant_directory
from skein_auth.signing import keyring as signing
from skein_gateway.identity import credential_cache as credentials
from skein_gateway.identity.credential_cache import SOURCE_RATE, IdentityCache
from skein_gateway.identity.credential_check import CredentialChecker, CredentialCheckKeys, CredentialOrigin
from skein_kit.calls.call import Call, current_call
from skein_kit.errors import CredentialInvalid, CredentialMissing, FieldInvalid, RpcError, ServiceUnavailable
from skein_kit.identity import identity_token
from skein_kit.identity.bearer_token import BearerToken
from skein_kit.identity.identity_token import Caller, IdentityTokenVerifier, sign_identity_token

TENANT = uuid.UUID("01a1fc15-9e1f-77a9-870d-5ac7ecb7dd2f")
CHECK_KEY = b"c" * 32
# Refused credentials at once: of one source, and of all.
SOURCE_BURST, TOTAL_BURST = 100, 1000


@dataclass
class Auth:
    """Signs whatever is asked of it, and counts."""

    key: OKPKey = field(default_factory=lambda: OKPKey.generate_key("Ed25519", auto_kid=True))
    published: OKPKey | None = None
    requests: list[auth_pb2.ExchangeRequest] = field(default_factory=list)
    tokens_held: list[str] = field(default_factory=list)
    refuses: grpc.StatusCode | None = None
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    now: float = 100.0

    async def Exchange(self, request: auth_pb2.ExchangeRequest) -> auth_pb2.ExchangeResponse:
        self.requests.append(request)
        call = current_call()
        assert call is not None
        self.tokens_held.append(call.identity_token)
        await self.may_answer.wait()
        if self.refuses is not None:
            raise aio.AioRpcError(self.refuses, aio.Metadata(), aio.Metadata())
        caller = Caller(
            principal=f"api_key:{request.bearer.rstrip('_')}", tenant_id=TENANT, permissions=frozenset({"memory.read"})
        )
        token, ends = sign_identity_token(caller, key=self.key, at=time.time())
        return auth_pb2.ExchangeResponse(token=token, expire_time=Timestamp(seconds=int(ends)))

    async def keys(self) -> Mapping[str, str]:
        key = self.published or self.key
        return {str(key.kid): json.dumps(key.as_dict(private=False))}

    @property
    def credentials(self) -> IdentityCache:
        stub = cast("auth_pb2_grpc.AuthInternalServiceAsyncStub", self)
        checker = CredentialChecker(self.recognition_keys, clock=lambda: self.now)
        return IdentityCache(stub, IdentityTokenVerifier(self.keys), checker, clock=lambda: self.now)

    async def recognition_keys(self) -> CredentialCheckKeys:
        return CredentialCheckKeys(check_keys=(CHECK_KEY,))


@pytest.fixture
async def auth() -> Auth:
    auth = Auth()
    auth.may_answer.set()
    return auth


def call(credential: str = "key", **metadata: str) -> Call:
    # As long as a legacy token, of which only auth can tell whether it is good.
    headers = {"authorization": f"Bearer {credential:_<32}", **metadata}
    return Call(path="/p.S/M", metadata=headers, deadline=None, peer="test")


async def test_a_credential_becomes_a_caller_and_a_token(auth: Auth) -> None:
    coming = call()

    caller = await auth.credentials.identify(coming)

    assert caller.principal == "api_key:key"
    assert coming.identity_token.count(".") == 2
    assert auth.tokens_held == [""], "the exchange itself carries no identity"


async def test_a_credential_is_exchanged_once_in_its_time(auth: Auth) -> None:
    known = auth.credentials

    for seconds in (0.0, 1.0, credentials.LIFETIME_SECONDS - 1.1):
        auth.now += seconds
        await known.identify(call())

    assert len(auth.requests) == 1
    auth.now += 1.1
    await known.identify(call())
    assert len(auth.requests) == 2


def test_callers_are_cached_for_less_than_the_promised_five_seconds() -> None:
    """Auth and the gateway remember one after the other, a service that checks signatures by itself."""
    assert credentials.LIFETIME_SECONDS + tenant_directory.TTL_SECONDS < 5
    assert credentials.LIFETIME_SECONDS + signing.VERIFICATION_KEYS_TTL_SECONDS < 5
    assert identity_token._KEY_MAX_AGE_SECONDS < 5


async def test_concurrent_callers_share_one_exchange(auth: Auth) -> None:
    known = auth.credentials
    auth.may_answer.clear()
    calls = [asyncio.create_task(known.identify(call())) for _ in range(10)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    auth.may_answer.set()
    callers = await asyncio.gather(*calls)

    assert len(auth.requests) == 1
    assert len(set(callers)) == 1


async def test_a_caller_that_gives_up_leaves_the_exchange_to_the_others(auth: Auth) -> None:
    known = auth.credentials
    auth.may_answer.clear()
    first, second = (asyncio.create_task(known.identify(call())) for _ in range(2))
    await asyncio.sleep(0)

    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    auth.may_answer.set()

    assert (await second).principal == "api_key:key"
    assert len(auth.requests) == 1


async def test_failures_are_not_remembered(auth: Auth) -> None:
    known = auth.credentials
    auth.refuses = grpc.StatusCode.UNAUTHENTICATED
    with pytest.raises(aio.AioRpcError):
        await known.identify(call())

    auth.refuses = None

    assert (await known.identify(call())).principal == "api_key:key"


async def test_each_tenant_that_an_operator_names_is_another_identity(auth: Auth) -> None:
    known = auth.credentials
    other = str(uuid.uuid4())

    await known.identify(call())
    await known.identify(call(**{"skein-tenant-id": other}))

    assert [request.tenant_id for request in auth.requests] == ["", other]


async def test_memory_is_bounded_and_the_least_used_goes_first(auth: Auth, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "MAX_CACHED", 2)
    known = auth.credentials

    for credential in ("a", "b", "a", "c", "a", "b"):
        await known.identify(call(credential))

    assert [request.bearer.rstrip("_") for request in auth.requests] == ["a", "b", "c", "b"]


async def test_no_credential_stays_in_memory(auth: Auth) -> None:
    known = auth.credentials

    await known.identify(call("skein_secret"))

    assert b"skein_secret" not in b"".join(known._cache)


async def test_a_token_of_an_unknown_signing_key_is_refused(auth: Auth) -> None:
    auth.published = OKPKey.generate_key("Ed25519", auto_kid=True)

    with pytest.raises(CredentialInvalid):
        await auth.credentials.identify(call())


@pytest.mark.parametrize(
    ("metadata", "refusal"),
    [
        ({}, CredentialMissing),
        ({"authorization": "Basic abc"}, CredentialMissing),
        ({"authorization": "Bearer  "}, CredentialMissing),
        ({"authorization": f"Bearer {'x' * 8193}"}, CredentialInvalid),
        ({"authorization": "Bearer key", "skein-tenant-id": "mine"}, FieldInvalid),
    ],
    ids=["none", "another scheme", "empty", "oversized", "no tenant id"],
)
async def test_a_malformed_credential_never_reaches_auth(
    auth: Auth, metadata: dict[str, str], refusal: type[Exception]
) -> None:
    coming = Call(path="/p.S/M", metadata=metadata, deadline=None, peer="test")

    with pytest.raises(refusal):
        await auth.credentials.identify(coming)

    assert auth.requests == []


async def test_an_exchange_that_takes_too_long_is_auths_fault_and_may_be_repeated(auth: Auth) -> None:
    known = auth.credentials
    auth.refuses = grpc.StatusCode.DEADLINE_EXCEEDED

    with pytest.raises(ServiceUnavailable):
        await known.identify(call())

    auth.refuses = None
    assert (await known.identify(call())).principal == "api_key:key"


def key_text(check_key: bytes = b"") -> str:
    """Return a new API key with check digits, or without any."""
    key = BearerToken.generate("skein_", TENANT, uuid.uuid4())
    return (key.with_mac(check_key) if check_key else key).encode()


async def refusals(known: IdentityCache, *coming: Call) -> list[str]:
    """Return what each call is refused with, in order; empty for one that is let in."""
    results = []
    for one in coming:
        try:
            await known.identify(one)
        except RpcError as refusal:
            results.append(refusal.reason)
        except aio.AioRpcError as error:
            results.append(error.code().name)
        else:
            results.append("")
    return results


@pytest.mark.parametrize(
    "forged",
    [
        key_text(b"another cluster's"),
        key_text(CHECK_KEY)[:-1] + "!",
        "skein_once_" + "a" * 120,
        "too short",
        "eyJhbGciOiJub25lIn0.e30.",
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEifQ.e30.AAAA",
        "not.base64!.at-all",
    ],
)
async def test_one_forged_credential_a_minute_of_each_source_reaches_auth(auth: Auth, forged: str) -> None:
    known = auth.credentials
    auth.refuses = grpc.StatusCode.UNAUTHENTICATED

    actual_refusals = await refusals(known, *[entering(forged, "192.0.2.1") for _ in range(5)])
    actual_refusals += await refusals(known, entering(forged, "192.0.2.2"))

    assert actual_refusals == ["UNAUTHENTICATED", *["CREDENTIAL_INVALID"] * 4, "UNAUTHENTICATED"]
    assert len(auth.requests) == 2


async def test_credentials_that_only_auth_can_tell_stop_reaching_it(auth: Auth) -> None:
    known = auth.credentials
    auth.refuses = grpc.StatusCode.UNAUTHENTICATED
    invented = [entering(key_text(), "192.0.2.1") for _ in range(3 * int(SOURCE_BURST))]

    actual_refusals = await refusals(known, *invented)

    assert actual_refusals.count("RATE_LIMITED") == 2 * SOURCE_BURST
    assert len(auth.requests) == SOURCE_BURST
    auth.now += 1.0
    actual_refusals = await refusals(known, *invented)
    assert len(actual_refusals) - actual_refusals.count("RATE_LIMITED") == SOURCE_RATE


async def test_a_flood_keeps_neither_genuine_keys_nor_proven_ones_of_its_address_out(auth: Auth) -> None:
    known = auth.credentials
    proven, genuine = key_text(), key_text(CHECK_KEY)
    await known.identify(entering(proven, "192.0.2.1"))
    auth.refuses = grpc.StatusCode.UNAUTHENTICATED
    auth.now += credentials.LIFETIME_SECONDS
    flood = [entering(key_text(), "192.0.2.1") for _ in range(2 * int(SOURCE_BURST))]
    assert (await refusals(known, *flood))[-1] == "RATE_LIMITED"
    auth.refuses = None

    actual_refusals = await refusals(
        known,
        entering(proven, "192.0.2.1"),
        entering(genuine, "192.0.2.1"),
        entering(key_text(), "192.0.2.2"),
    )

    assert actual_refusals == ["", "", ""]


async def test_a_key_that_was_refused_is_charged_to_its_source_from_then_on(auth: Auth) -> None:
    known, revoked = auth.credentials, key_text(CHECK_KEY)
    auth.refuses = grpc.StatusCode.UNAUTHENTICATED

    actual_refusals = await refusals(known, *[entering(revoked, "192.0.2.1") for _ in range(2 * int(SOURCE_BURST))])

    assert len(auth.requests) == 1 + SOURCE_BURST
    assert actual_refusals[-1] == "RATE_LIMITED"


async def test_successful_and_open_calls_cost_their_source_nothing(auth: Auth) -> None:
    known = auth.credentials
    calls = 2 * int(SOURCE_BURST)

    good = await refusals(known, *[entering(key_text(), "192.0.2.1") for _ in range(calls)])
    auth.refuses = grpc.StatusCode.UNAVAILABLE
    unanswered = await refusals(known, *[entering(key_text(), "192.0.2.1") for _ in range(calls)])

    assert set(good) == {""}
    assert set(unanswered) == {"UNAVAILABLE"}


async def test_an_ipv6_customer_is_one_source_whatever_its_addresses(auth: Auth) -> None:
    known = auth.credentials
    auth.refuses = grpc.StatusCode.UNAUTHENTICATED

    await refusals(known, *[entering(key_text(), f"2001:db8::{n:x}") for n in range(3 * int(SOURCE_BURST))])

    assert len(auth.requests) == SOURCE_BURST


@pytest.mark.system
async def test_many_sources_together_have_a_limit_too(auth: Auth) -> None:
    known = auth.credentials
    auth.refuses = grpc.StatusCode.UNAUTHENTICATED

    await refusals(known, *[entering(key_text(), f"10.0.{n >> 8}.{n & 255}") for n in range(2000)])

    assert len(auth.requests) == TOTAL_BURST


async def test_a_genuine_access_token_is_recognised_and_one_with_another_signature_is_not() -> None:
    signing, other = (RSAKey.generate_key(2048, auto_kid=True) for _ in range(2))
    header = {"alg": "RS256", "kid": signing.kid, "typ": "at+jwt"}
    genuine = jwt.encode(header, {"sub": "x"}, signing, algorithms=["RS256"])
    forged = jwt.encode(header, {"sub": "x"}, other, algorithms=["RS256"])
    unknown = jwt.encode({**header, "kid": "newer"}, {"sub": "x"}, other, algorithms=["RS256"])
    keys = CredentialCheckKeys(access_keys={str(signing.kid): signing})

    assert [keys.origin_of(text) for text in (genuine, forged, unknown)] == [
        CredentialOrigin.GENUINE,
        CredentialOrigin.FORGED,
        CredentialOrigin.UNKNOWN,
    ]


@over(
    "more", [{"crit": 5}, {"crit": ["b64"], "b64": False}, {"b64": 1}, {"typ": 5}, {"alg": 5}, {"alg": []}, {"kid": []}]
)
def test_a_header_that_the_cluster_does_not_write_is_forged(more: dict[str, object]) -> None:
    signing = RSAKey.generate_key(2048, auto_kid=True)
    header = {"alg": "RS256", "kid": signing.kid, "typ": "at+jwt", **more}
    parts = (json.dumps(part).encode() for part in (header, {"sub": "x"}, "signature"))
    text = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)

    assert CredentialCheckKeys(access_keys={str(signing.kid): signing}).origin_of(text) is CredentialOrigin.FORGED


async def test_without_auths_keys_only_auth_can_tell() -> None:
    assert CredentialCheckKeys().origin_of(key_text(CHECK_KEY)) is CredentialOrigin.UNKNOWN


def entering(credential: str, address: str) -> Call:
    coming = Call(path="/p.S/M", metadata={"authorization": f"Bearer {credential}"}, deadline=None, peer="test")
    coming.set_origin(address)
    return coming
