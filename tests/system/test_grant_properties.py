from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule, run_state_machine_as_test

from skein_auth.auth_sessions import model as grants
from skein_auth.auth_sessions.auth_sessions import SystemRandomSource
from skein_auth.auth_sessions.model import (
    AuthSession,
    CodeRequest,
    GrantResult,
    Lifetimes,
    RefreshRequest,
    RefreshTokenDerivation,
    StepContext,
)
from skein_auth.auth_sessions.store import AuthSessionStore
from skein_auth.oauth_clients.model import Client, RegistrationQuota
from skein_auth.oauth_clients.store import ClientStore
from skein_cluster import embedded
from skein_cluster.embedded.server import Server
from skein_kit.database.transactions import Database
from skein_kit.identity.bearer_token import BearerToken

T = TypeVar("T")
START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
TERMS = Lifetimes(refresh=timedelta(days=30), session=timedelta(days=60))
SUCCESSORS = RefreshTokenDerivation(keys=(b"k" * 32,))
TENANTS = (UUID(int=1), UUID(int=2))
CLIENTS = ("app", "other")
SCOPES = ("memory.read", "memory.write", "session.read")
VERIFIER = "v" * 43
REDIRECT = "https://app.example/back"
subsets = st.frozensets(st.sampled_from(SCOPES))
bursts = st.integers(min_value=1, max_value=3)


class LoopThread:
    """An event loop in a thread of its own, for tests that are no coroutines."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=60)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@dataclass
class GrantDatabase:
    """A store on a real database, seen as the service's own role."""

    loop: LoopThread
    store: AuthSessionStore
    account_id: UUID


@pytest.fixture
def world(server: Server, template: str) -> Iterator[GrantDatabase]:
    loop = LoopThread()
    stack = AsyncExitStack()
    name = f"grants_{uuid.uuid4().hex}"
    account_id = uuid.uuid4()

    async def arrange() -> AuthSessionStore:
        await embedded.create_database(server, name, template)
        url = server.url(user="postgres", database=name)
        connection = await asyncpg.connect(url)
        await connection.execute(
            "INSERT INTO auth.accounts (account_id, display_name, status, create_time, update_time) "
            "VALUES ($1, '', 'active', now(), now())",
            account_id,
        )
        await connection.close()
        database = await stack.enter_async_context(Database.open(url, service="auth", size=6, timeout=30.0))
        for client_id in CLIENTS:
            client = Client(client_id=client_id, create_time=START, update_time=START)
            source = RegistrationQuota(address_hash=bytes(32), max_per_address=100, max_clients=100)
            await ClientStore(database).create_client(client, source, at=START)
        return AuthSessionStore(database)

    async def leave() -> None:
        await stack.aclose()
        await embedded.drop_database(server, name)

    try:
        yield GrantDatabase(loop=loop, store=loop.run(arrange()), account_id=account_id)
        loop.run(leave())
    finally:
        loop.close()


@dataclass(eq=False)
class Grant:
    """What a person agreed to, and all that came of it."""

    session: AuthSession
    code: BearerToken
    code_ends: datetime
    # How often the code gave tokens.
    redeemed: int = 0
    revoked: bool = False
    tokens: list[BearerToken] = field(default_factory=list)


class Sequences(RuleBasedStateMachine):
    """Whatever is done to grants, in whatever order and at once."""

    world: GrantDatabase

    def __init__(self) -> None:
        super().__init__()
        self.at = START
        self.all: list[Grant] = []

    grants = Bundle("grants")
    refresh_tokens = Bundle("refresh_tokens")

    @rule(target=grants, tenant=st.sampled_from(TENANTS), client=st.sampled_from(CLIENTS), scopes=subsets)
    def approve(self, tenant: UUID, client: str, scopes: frozenset[str]) -> Grant:
        auth_session = AuthSession(
            tenant_id=tenant,
            auth_session_id=SystemRandomSource().new_id(self.at),
            account_id=self.world.account_id,
            client_id=client,
            scopes=scopes | {"memory.read"},
            resources=("https://skein.example",),
            auth_time=self.at,
            create_time=self.at,
            expire_time=self.at,
        )
        session, code, token = grants.approve(auth_session, REDIRECT, grants.challenge_of(VERIFIER), self._now())
        self.world.loop.run(self.world.store.approve(session, code))
        grant = Grant(session=session, code=token, code_ends=code.expire_time)
        self.all.append(grant)
        return grant

    @rule(
        target=refresh_tokens,
        grant=grants,
        client=st.sampled_from(CLIENTS),
        verifier=st.sampled_from((VERIFIER, VERIFIER, "w" * 43)),
        redirect=st.sampled_from((REDIRECT, REDIRECT, REDIRECT + "/")),
        burst=bursts,
    )
    def redeem(self, grant: Grant, client: str, verifier: str, redirect: str, burst: int) -> Any:
        now = self._now()
        redemption = CodeRequest(client_id=client, redirect_uri=redirect, verifier=verifier)

        async def one() -> GrantResult:
            step, _ = await self.world.store.redeem(grant.code, redemption, now)
            return step

        steps = self._at_once([one() for _ in range(burst)])

        is_right = (client, verifier, redirect) == (grant.session.client_id, VERIFIER, REDIRECT)
        issuing_steps = [step for step in steps if step.tokens is not None]
        was_redeemed = grant.redeemed > 0
        grant.redeemed += len(issuing_steps)
        assert grant.redeemed <= 1, "a code was redeemed twice"
        if issuing_steps:
            assert is_right
            assert not grant.revoked
            assert self.at < grant.code_ends
        if is_right and grant.redeemed and (was_redeemed or burst > 1):
            grant.revoked = True
        return multiple(*(self._taken(grant, step) for step in issuing_steps))

    @rule(
        target=refresh_tokens,
        known=refresh_tokens,
        client=st.sampled_from(CLIENTS),
        scopes=st.frozensets(st.sampled_from((*SCOPES, "keys.write"))),
        burst=bursts,
    )
    def refresh(self, known: tuple[Grant, BearerToken], client: str, scopes: frozenset[str], burst: int) -> Any:
        grant, token = known
        before = list(grant.tokens)
        steps = self._at_once([self._refreshed(token, client, scopes) for _ in range(burst)])

        issuing_steps = [step for step in steps if step.tokens is not None]
        if issuing_steps:
            assert client == grant.session.client_id
            assert not grant.revoked, "a revoked grant gave a token"
            assert scopes <= grant.session.scopes, "a scope was widened"
            assert len({step.tokens.refresh for step in issuing_steps if step.tokens is not None}) == 1
        grant.revoked |= any(step.changes.revoke_time is not None for step in steps)
        taken = [self._taken(grant, step) for step in issuing_steps]
        return multiple(*(one for one in taken if one[1] not in before))

    @rule(target=refresh_tokens, known=refresh_tokens, other=refresh_tokens)
    def refresh_two_at_once(self, known: tuple[Grant, BearerToken], other: tuple[Grant, BearerToken]) -> Any:
        pairs = [known, other]
        steps = self._at_once([self._refreshed(token, grant.session.client_id, frozenset()) for grant, token in pairs])

        for (grant, _), step in zip(pairs, steps, strict=True):
            grant.revoked |= step.changes.revoke_time is not None
        return multiple(
            *(
                self._taken(grant, step)
                for (grant, _), step in zip(pairs, steps, strict=True)
                if step.tokens is not None and step.tokens.refresh not in grant.tokens
            )
        )

    @rule(known=refresh_tokens)
    def move_a_token_to_another_tenant(self, known: tuple[Grant, BearerToken]) -> None:
        grant, token = known
        other = next(tenant for tenant in TENANTS if tenant != token.tenant_id)
        moved = BearerToken(token.prefix, other, token.token_id, token.secret)

        (step,) = self._at_once([self._refreshed(moved, grant.session.client_id, frozenset())])

        assert step == GrantResult(error=grants.GrantError.INVALID)

    @rule(grant=grants)
    def revoke(self, grant: Grant) -> None:
        session = grant.session
        self.world.loop.run(self.world.store.revoke(session.tenant_id, session.auth_session_id, self.at, "test"))
        grant.revoked = True

    @rule(seconds=st.sampled_from((1, 5, 11, 61, 31 * 86_400)))
    def wait(self, seconds: int) -> None:
        self.at += timedelta(seconds=seconds)

    @invariant()
    def at_most_one_refresh_token_of_a_grant_goes_on(self) -> None:
        """Ask what would come of presenting each token that was ever given, without doing it."""
        for grant in self.all:
            would = [self._would(grant, token) for token in grant.tokens]
            issues = [step for step in would if step.tokens is not None]
            assert not (grant.revoked and issues), "a revoked grant would give a token"
            new = [step for step in issues if step.changes.replaced_token_id is not None]
            assert len(new) <= 1, "two refresh tokens of one grant are live"
            again = {
                step.tokens.refresh for step in issues if step.tokens is not None and not step.changes.replaced_token_id
            }
            assert len(again) <= 1
            assert again <= set(grant.tokens)

    def _would(self, grant: Grant, token: BearerToken) -> GrantResult:
        chain = self.world.loop.run(self.world.store.get_refresh_token_state(token))
        return grants.refresh(chain, token, RefreshRequest(client_id=grant.session.client_id), self._now())

    async def _refreshed(self, token: BearerToken, client: str, scopes: frozenset[str]) -> GrantResult:
        now = self._now()
        renewal = RefreshRequest(client_id=client, scopes=scopes)
        step, _ = await self.world.store.refresh(token, renewal, now)
        return step

    def _taken(self, grant: Grant, step: GrantResult) -> tuple[Grant, BearerToken]:
        """Take what a step gave, which must be the grant's own."""
        tokens = step.tokens
        assert tokens is not None
        assert tokens.refresh is not None
        assert tokens.scopes <= grant.session.scopes, "a scope was widened"
        assert (tokens.session.tenant_id, tokens.refresh.tenant_id) == (grant.session.tenant_id,) * 2
        assert tokens.session.auth_session_id == grant.session.auth_session_id
        if tokens.refresh not in grant.tokens:
            grant.tokens.append(tokens.refresh)
        return grant, tokens.refresh

    def _at_once(self, works: list[Coroutine[Any, Any, GrantResult]]) -> list[GrantResult]:
        async def gathered() -> list[GrantResult]:
            return list(await asyncio.gather(*works))

        return self.world.loop.run(gathered())

    def _now(self) -> StepContext:
        return StepContext(at=self.at, lifetimes=TERMS, random=SystemRandomSource(), derivation=SUCCESSORS)


def test_no_sequence_of_events_gives_more_than_was_granted(world: GrantDatabase) -> None:
    """Not two live uses of one code, two live refresh tokens, a wider scope or another tenant's token."""
    machine = type("Machine", (Sequences,), {"world": world})

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=60,
            stateful_step_count=25,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
