"""Ten thousand short histories of grants, moves, deletions and reads, by the stores' own statements.

Each history is two transactions that are rolled back, one of tenancy and one of memory, so that it costs some
milliseconds. Histories through the RPCs are in tests/service/test_space_histories.py.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Awaitable
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from fix_cluster import Cluster, Tenant
from fix_space_model import DEFAULT, ROLES, Model

from skein_kit.database.transactions import Database, Transaction
from skein_kit.errors import RpcError
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.space_reach import walled_reach
from skein_kit.ids import new_id, now
from skein_memory.moves.store import move_memories
from skein_tenancy.spaces.model import SpaceGrant, with_delegation
from skein_tenancy.spaces.store import SpaceStore

HISTORIES, STEPS = 10_000, 6
_CREATE = """
    INSERT INTO memory.memories
        (tenant_id, memory_id, type, content, scope, level, confidence, importance, content_hash, create_time,
         update_time, created_by, updated_by)
    VALUES ($1, $2, 'note', 'x', 'global', 'operational', 1, 1, '', now(), now(), 'test', 'test')
"""
_KINDS = ("create", "create", "grant", "delegate", "revoke", "move", "move", "delete")


class _RollBack(Exception):
    """Ends a transaction of which nothing stays."""


class History:
    """One history: the transactions of both services, the model, and what it chooses."""

    def __init__(self, seed: int, tenant_id: UUID, tenancy: Transaction, memory: Transaction) -> None:
        self.choose = random.Random(seed)
        self.tenant_id, self.tenancy, self.memory = tenant_id, tenancy, memory
        self.store = SpaceStore(tenancy.database)
        self.principals = [f"api_key:{number}" for number in range(3)]
        self.spaces: list[str] = []
        self.model = Model(bound=set())

    async def run(self) -> None:
        for number in range(2):
            space = await self.store.create_space(
                self.tenancy, self.tenant_id, display_name=str(number), description="", created_by="test"
            )
            self.spaces.append(str(space.space_id))
        for _ in range(STEPS):
            principal = self.choose.choice(self.principals)
            space_id = self.choose.choice([*self.spaces, DEFAULT])
            await self.step(self.choose.choice(_KINDS), principal, space_id)
            reader = self.choose.choice(self.principals)
            assert await self.seen(await self.caller(reader)) == self.model.visible(reader)

    async def caller(self, principal: str) -> Caller:
        visible = await self.store.read_visible(self.tenancy, self.tenant_id, [principal], "")
        spaces = tuple((space.space_id, space.role) for space in visible)
        return Caller(principal=principal, tenant_id=self.tenant_id, permissions=frozenset(), spaces=spaces)

    async def seen(self, caller: Caller) -> set[str]:
        await self.memory.set_spaces(walled_reach(caller, "", is_write=False) or ())
        rows = await self.connection.fetch("SELECT memory_id FROM memory.memories WHERE tenant_id = $1", self.tenant_id)
        return {str(row["memory_id"]) for row in rows}

    @property
    def connection(self) -> Any:
        return self.memory._connection

    async def step(self, kind: str, principal: str, space_id: str) -> None:
        if kind in {"grant", "delegate", "revoke"}:
            if space_id != DEFAULT:
                await getattr(self, kind)(principal, space_id)
            return
        if kind != "create" and not self.model.memories:
            return
        caller = await self.caller(principal)
        memory_id = self.choose.choice(list(self.model.memories)) if self.model.memories else ""
        target_id = self.choose.choice([*self.spaces, DEFAULT])
        expected = {
            "create": lambda: self.model.write_error(principal, space_id),
            "delete": lambda: self.model.act_error(principal, space_id, memory_id),
            "move": lambda: self.model.move_error(principal, space_id, target_id, memory_id),
        }[kind]()
        reached = [space_id, *([target_id] if kind == "move" else [])]
        refusals = [refusal for named in reached if (refusal := refusal_of(caller, named))]
        if refusals:
            assert refusals[0] == expected
            return
        await self.memory.set_spaces([uuid.UUID(space_id)])
        if kind == "create":
            created_id = new_id(now())
            await self.connection.execute(_CREATE, self.tenant_id, created_id)
            self.model.memories[str(created_id)] = space_id
        elif kind == "delete":
            ended = await self.connection.execute(
                "DELETE FROM memory.memories WHERE tenant_id = $1 AND memory_id = $2",
                self.tenant_id,
                uuid.UUID(memory_id),
            )
            assert ended == ("DELETE 0" if expected else "DELETE 1")
            if not expected:
                del self.model.memories[memory_id]
        elif space_id != target_id:
            moved = move_memories(
                self.memory,
                self.tenant_id,
                [memory_id],
                uuid.UUID(space_id),
                uuid.UUID(target_id),
                at=now(),
                by="test",
            )
            assert await reason_of(moved) == expected
            if not expected:
                self.model.memories[memory_id] = target_id

    async def grant(self, principal: str, space_id: str) -> None:
        role, is_bound = self.choose.choice(ROLES), self.choose.random() < 0.2
        await self.put(self.new_grant(principal, space_id, role, is_delegable=True), is_bound=is_bound)
        self.model.grant(principal, space_id, role)
        if is_bound:
            self.model.bound.add(principal)

    async def delegate(self, principal: str, space_id: str) -> None:
        """Pass on what the principal has, or fail, as the model says."""
        other = self.choose.choice([each for each in self.principals if each != principal])
        role, own_role = self.choose.choice(ROLES), self.model.role(principal, space_id)
        caller = await self.caller(principal)
        given = self.new_grant(other, space_id, role, is_delegable=False)
        own = await self.store.lock_own_grants(self.tenancy, self.tenant_id, given.space_id, [principal])
        is_allowed = own_role == "manager" or (
            bool(own_role)
            and ROLES.index(role) <= ROLES.index(own_role)
            # What was passed on is not passed on again, and a delegate replaces nothing.
            and (principal, space_id) not in self.model.delegates
            and not self.model.role(other, space_id)
        )
        reason = await reason_of(self.pass_on(caller, given, own, may_replace=own_role == "manager"))
        assert reason == ("" if is_allowed else "PERMISSION_MISSING" if own_role else "SPACE_NOT_FOUND")
        if is_allowed:
            self.model.grant(other, space_id, role, principal if own_role != "manager" else "")

    async def pass_on(self, caller: Caller, grant: SpaceGrant, own: list[SpaceGrant], *, may_replace: bool) -> None:
        await self.put(with_delegation(caller, grant, own), is_bound=False, may_replace=may_replace)

    def new_grant(self, principal: str, space_id: str, role: str, *, is_delegable: bool) -> SpaceGrant:
        return SpaceGrant(
            grant_id=new_id(now()),
            space_id=uuid.UUID(space_id),
            principal=principal,
            role=role,
            expire_time=None,
            is_delegable=is_delegable,
            create_time=now(),
            created_by="test",
        )

    async def put(self, grant: SpaceGrant, *, is_bound: bool, may_replace: bool = True) -> None:
        await self.store.put_grant(self.tenancy, self.tenant_id, grant, is_bound=is_bound, may_replace=may_replace)
        # The first space would open ten seconds later.
        await self.tenancy._connection.execute(
            "UPDATE tenancy.spaces SET open_time = $2 WHERE tenant_id = $1 AND open_time > $2",
            self.tenant_id,
            now() - timedelta(seconds=1),
        )

    async def revoke(self, principal: str, space_id: str) -> None:
        ended = self.model.revoke(principal, space_id)
        revoked = self.store.revoke_grant(self.tenancy, self.tenant_id, uuid.UUID(space_id), principal, unbind=False)
        assert await reason_of(revoked) == ("" if ended else "SPACE_GRANT_NOT_FOUND")


async def reason_of(work: Awaitable[object]) -> str:
    """Return the reason of refused work; empty for work that is done."""
    try:
        await work
    except RpcError as error:
        return error.reason
    return ""


def refusal_of(caller: Caller, space_id: str) -> str:
    """Return why a caller does not write in a space; empty if it may."""
    try:
        walled_reach(caller, space_id, is_write=True)
    except RpcError as error:
        return error.reason
    return ""


async def play(seed: int, tenant_id: UUID, tenancy: Database, memory: Database) -> None:
    async with tenancy.transaction(tenant_id) as tenancy_tx, memory.transaction(tenant_id) as memory_tx:
        await History(seed, tenant_id, tenancy_tx, memory_tx).run()
        raise _RollBack


@pytest.mark.timeout(3600)
async def test_ten_thousand_histories_show_each_caller_what_the_model_shows(cluster: Cluster, tenant: Tenant) -> None:
    url = cluster.postgres.url(user="postgres", database="skein")
    async with (
        Database.open(url, service="tenancy", size=1, timeout=30) as tenancy,
        Database.open(url, service="memory", size=1, timeout=30) as memory,
    ):
        for seed in range(HISTORIES):
            with suppress(_RollBack):
                await play(seed, tenant.tenant_id, tenancy, memory)
