from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from fix_catalogue import over

from skein_auth.auth_sessions import model as grants
from skein_auth.auth_sessions.model import (
    AuthorizationCode,
    AuthSession,
    CodeRequest,
    GrantError,
    GrantResult,
    Lifetimes,
    RefreshRequest,
    RefreshToken,
    RefreshTokenDerivation,
    RefreshTokenState,
    StepContext,
)
from skein_kit.identity.bearer_token import BearerToken

START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
TENANT = UUID(int=1)
REDIRECT = "https://app.example/back"
VERIFIER = "v" * 43
CHALLENGE = grants.challenge_of(VERIFIER)
SCOPES = frozenset({"memory.read", "memory.write", "openid"})
RESOURCES = ("https://skein.example", "https://skein.example/mcp")
SUCCESSORS = RefreshTokenDerivation(keys=(b"k" * 32,))


@dataclass
class RepeatableRandomness:
    """Randomness that repeats."""

    count: int = field(default=0)

    def new_id(self, at: datetime) -> UUID:
        self.count += 1
        return UUID(int=self.count + 1000)

    def new_secret(self) -> bytes:
        self.count += 1
        return hashlib.sha256(str(self.count).encode()).digest()


CHANCE = RepeatableRandomness()


def after(
    seconds: float, *, lifetimes: Lifetimes | None = None, derivation: RefreshTokenDerivation = SUCCESSORS
) -> StepContext:
    at = START + timedelta(seconds=seconds)
    return StepContext(at=at, lifetimes=lifetimes or Lifetimes(), random=CHANCE, derivation=derivation)


def grant(**changes: object) -> AuthSession:
    session = AuthSession(
        tenant_id=TENANT,
        auth_session_id=UUID(int=2),
        account_id=UUID(int=3),
        client_id="app",
        scopes=SCOPES,
        resources=RESOURCES,
        auth_time=START,
        create_time=START,
        expire_time=START + timedelta(days=1),
    )
    return dataclasses.replace(session, **changes)  # type: ignore[arg-type]


def approved() -> tuple[AuthSession, AuthorizationCode, BearerToken]:
    return grants.approve(grant(), REDIRECT, CHALLENGE, after(0))


def redemption(**changes: object) -> CodeRequest:
    right = CodeRequest(client_id="app", redirect_uri=REDIRECT, verifier=VERIFIER)
    return dataclasses.replace(right, **changes)  # type: ignore[arg-type]


def first_token() -> tuple[RefreshTokenState, BearerToken]:
    session, code, presented = approved()
    step = grants.redeem((session, code), presented, redemption(), after(0))
    assert step.tokens is not None
    assert step.tokens.refresh is not None
    assert step.changes.refresh_token is not None
    return RefreshTokenState(session=step.tokens.session, token=step.changes.refresh_token), step.tokens.refresh


def rotated(seconds: float = 100) -> tuple[RefreshTokenState, BearerToken, BearerToken]:
    """Return a replaced token's chain, that token, and its successor."""
    chain, token = first_token()
    step = grants.refresh(chain, token, RefreshRequest(client_id="app"), after(seconds))
    stored = step.changes.refresh_token
    assert stored is not None
    assert step.tokens is not None
    assert step.tokens.refresh is not None
    old = dataclasses.replace(chain.token, replace_time=stored.create_time, replaced_by=stored.refresh_token_id)
    return dataclasses.replace(chain, token=old, successor=stored), token, step.tokens.refresh


def nothing_happened(step: GrantResult, error: GrantError) -> bool:
    return step == GrantResult(error=error)


def test_an_approval_lives_as_long_as_its_code() -> None:
    session, code, token = approved()

    assert session.expire_time == code.expire_time == START + timedelta(seconds=60)
    assert token.matches_hash(code.secret_hash)
    assert token.tenant_id == TENANT


def test_a_code_is_redeemed_with_its_verifier() -> None:
    session, code, presented = approved()

    step = grants.redeem((session, code), presented, redemption(), after(30))

    assert step.error is None
    assert step.changes.code_use_time == after(30).at
    assert step.tokens is not None
    assert (step.tokens.scopes, step.tokens.resources) == (SCOPES, RESOURCES)
    assert step.tokens.session.expire_time == after(30).at + Lifetimes().session
    assert step.tokens.refresh_expire_time == after(30).at + Lifetimes().refresh


def test_the_sign_in_of_a_client_without_refresh_tokens_ends_with_the_access_token() -> None:
    session, code, presented = approved()

    step = grants.redeem((session, code), presented, redemption(refreshes=False), after(0))

    assert step.tokens is not None
    assert step.tokens.refresh is None
    assert step.changes.refresh_token is None
    assert step.tokens.session.expire_time == step.tokens.expire_time == START + Lifetimes().access


@over(
    "wrong",
    [
        {"client_id": "another"},
        {"client_id": ""},
        {"redirect_uri": REDIRECT + "/"},
        {"redirect_uri": ""},
        {"verifier": "w" * 43},
        {"verifier": ""},
        {"verifier": "v" * 42},
        {"verifier": "v" * 129},
        {"verifier": CHALLENGE},
    ],
)
@over("is_used", [False, True])
def test_a_client_that_cannot_redeem_a_code_neither_redeems_nor_revokes(
    wrong: dict[str, str], *, is_used: bool
) -> None:
    session, code, presented = approved()
    code = dataclasses.replace(code, use_time=START if is_used else None)

    step = grants.redeem((session, code), presented, redemption(**wrong), after(10))

    assert nothing_happened(step, GrantError.INVALID)


def test_a_wrong_secret_redeems_nothing() -> None:
    session, code, presented = approved()
    guessed = BearerToken.generate(grants.CODE_PREFIX, presented.tenant_id, presented.token_id, bytes(32))

    assert nothing_happened(grants.redeem((session, code), guessed, redemption(), after(10)), GrantError.INVALID)
    assert nothing_happened(grants.redeem(None, presented, redemption(), after(10)), GrantError.INVALID)


def test_a_replayed_code_revokes_what_it_gave_even_when_it_has_expired() -> None:
    session, code, presented = approved()
    used = dataclasses.replace(code, use_time=START)

    for seconds in (10, 10_000):
        step = grants.redeem((session, used), presented, redemption(), after(seconds))

        assert step.error is GrantError.REUSED
        assert step.changes.revoke_time == after(seconds).at
        assert step.tokens is None


def test_a_code_works_no_longer_than_it_lives() -> None:
    session, code, presented = approved()

    assert grants.redeem((session, code), presented, redemption(), after(59.9)).tokens is not None
    assert nothing_happened(grants.redeem((session, code), presented, redemption(), after(60)), GrantError.INVALID)


def test_a_code_of_a_revoked_grant_is_worth_nothing() -> None:
    session, code, presented = approved()
    revoked = dataclasses.replace(session, revoke_time=START)

    assert nothing_happened(grants.redeem((revoked, code), presented, redemption(), after(1)), GrantError.INVALID)


def test_a_code_gives_fewer_resources_but_never_others() -> None:
    session, code, presented = approved()

    fewer = grants.redeem((session, code), presented, redemption(resources=RESOURCES[1:]), after(1))
    other = grants.redeem((session, code), presented, redemption(resources=("https://else.example",)), after(1))

    assert fewer.tokens is not None
    assert fewer.tokens.resources == RESOURCES[1:]
    assert nothing_happened(other, GrantError.TARGET)


def test_the_predecessor_gets_the_same_successor_again_within_the_grace() -> None:
    chain, token, successor = rotated(100)

    again = grants.refresh(chain, token, RefreshRequest(client_id="app"), after(109.9))

    assert again.changes == grants.NO_CHANGES
    assert again.tokens is not None
    assert again.tokens.refresh == successor


def test_the_successor_is_found_again_after_the_system_key_changed() -> None:
    chain, token, successor = rotated(100)
    changed = RefreshTokenDerivation(keys=(b"n" * 32, b"k" * 32))
    forgotten = RefreshTokenDerivation(keys=(b"n" * 32,))

    again = grants.refresh(chain, token, RefreshRequest(client_id="app"), after(105, derivation=changed))
    refused = grants.refresh(chain, token, RefreshRequest(client_id="app"), after(105, derivation=forgotten))

    assert again.tokens is not None
    assert again.tokens.refresh == successor
    assert nothing_happened(refused, GrantError.INVALID)


def test_the_predecessor_revokes_the_sign_in_after_the_grace() -> None:
    chain, token, _ = rotated(100)

    step = grants.refresh(chain, token, RefreshRequest(client_id="app"), after(110))

    assert step.error is GrantError.REUSED
    assert step.changes.revoke_time == after(110).at


def test_the_predecessor_revokes_the_sign_in_once_its_successor_was_used() -> None:
    chain, token, _ = rotated(100)
    assert chain.successor is not None
    used = dataclasses.replace(chain.successor, replace_time=after(101).at, replaced_by=UUID(int=9))

    step = grants.refresh(
        dataclasses.replace(chain, successor=used), token, RefreshRequest(client_id="app"), after(102)
    )

    assert step.error is GrantError.REUSED
    assert step.changes.revoke_time == after(102).at


def test_no_grace_means_no_second_answer() -> None:
    chain, token, _ = rotated(100)

    step = grants.refresh(
        chain, token, RefreshRequest(client_id="app"), after(100, lifetimes=Lifetimes(grace=timedelta(0)))
    )

    assert step.error is GrantError.REUSED


def test_a_sign_in_ends_without_use_and_in_any_case() -> None:
    lifetimes = Lifetimes(refresh=timedelta(days=30), session=timedelta(days=90))
    chain, token = first_token()
    old = dataclasses.replace(chain.token, expire_time=START + timedelta(days=200))

    idle = grants.refresh(chain, token, RefreshRequest(client_id="app"), after(30 * 86_400, lifetimes=lifetimes))
    over = grants.refresh(
        dataclasses.replace(chain, token=old),
        token,
        RefreshRequest(client_id="app"),
        after(90 * 86_400, lifetimes=lifetimes),
    )

    assert nothing_happened(idle, GrantError.EXPIRED)
    assert nothing_happened(over, GrantError.EXPIRED)


def test_nothing_given_out_lives_longer_than_its_sign_in() -> None:
    chain, token = first_token()
    ends = START + timedelta(seconds=600)
    short = dataclasses.replace(chain, session=dataclasses.replace(chain.session, expire_time=ends))

    step = grants.refresh(short, token, RefreshRequest(client_id="app"), after(300))

    assert step.tokens is not None
    assert step.tokens.expire_time == step.tokens.refresh_expire_time == ends


def test_a_revoked_sign_in_is_not_refreshed() -> None:
    chain, token = first_token()
    revoked = dataclasses.replace(chain, session=dataclasses.replace(chain.session, revoke_time=START))

    assert nothing_happened(
        grants.refresh(revoked, token, RefreshRequest(client_id="app"), after(1)), GrantError.INVALID
    )
    assert nothing_happened(grants.refresh(None, token, RefreshRequest(client_id="app"), after(1)), GrantError.INVALID)


def test_an_own_sign_in_is_refreshed_without_a_client() -> None:
    own = grant(client_id="", scopes=frozenset({"account"}))
    begun = grants.begin_session(own, after(0))
    assert begun.tokens is not None
    assert begun.tokens.refresh is not None
    assert begun.changes.refresh_token is not None
    chain = RefreshTokenState(session=begun.tokens.session, token=begun.changes.refresh_token)

    step = grants.refresh(chain, begun.tokens.refresh, RefreshRequest(), after(5))

    assert step.tokens is not None
    assert nothing_happened(
        grants.refresh(chain, begun.tokens.refresh, RefreshRequest(client_id="app"), after(5)),
        GrantError.INVALID,
    )


def test_the_challenge_is_that_of_rfc_7636() -> None:
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

    assert grants.challenge_of(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    assert grants.verify_code_challenge(verifier, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")


@over("text", ["", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM=", "E9Melhoa2OwvFrEMTJguCHa", "é" * 43])
def test_an_invalid_s256_challenge_is_detected(text: str) -> None:
    assert not grants.is_challenge(text)


def test_secrets_are_not_shown() -> None:
    session, code, token = approved()
    stored = RefreshToken(refresh_token_id=UUID(int=1), secret_hash=b"h" * 32, create_time=START, expire_time=START)

    shown = repr((session, code, token, stored, SUCCESSORS, redemption()))

    assert "hhhh" not in shown
    assert "kkkk" not in shown
    assert VERIFIER not in shown
