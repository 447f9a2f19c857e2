"""When the expiry round runs again, and what one tenant's failure keeps the others from."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import grpc
import pytest
from google.rpc.status_pb2 import Status
from grpc import aio

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_kit.errors import STATUS_DETAILS_KEY, DatabaseUnavailable
from skein_worker.rounds import catalog
from skein_worker.rounds.tenant_rounds import TenantRounds
from skein_worker.rounds.tenant_visits import TenantVisitor

TENANTS = ("a", "b", "c")
CADENCE = 300.0


class FailingServices:
    """Services of which one fails for one tenant, and the system that acts in it."""

    def __init__(self, failing: str, code: grpc.StatusCode, *, has_machines: bool = False) -> None:
        self.failing = failing
        self.code = code
        self.has_machines = has_machines
        # What a service says beside the code.
        self.status: Status | None = None
        self.tenant = ""
        self.visited: dict[str, list[str]] = defaultdict(list)

    @asynccontextmanager
    async def as_system(self, *, tenant_id: str = "", space_id: str = "", seconds: float) -> AsyncIterator[None]:
        assert not space_id
        self.tenant = tenant_id
        yield

    async def spaces(self, _tenant_id: str, *, seconds: float) -> list[str]:
        assert seconds
        return [""]

    def service(self, name: str) -> Any:
        class Service:
            async def ListDueTenants(_self, _request: Any) -> memory_pb2.ListDueTenantsResponse:  # noqa: N805 - self is ours.
                return memory_pb2.ListDueTenantsResponse(tenant_ids=TENANTS)

            async def DeleteExpired(_self, _request: Any) -> memory_pb2.DeleteExpiredResponse:  # noqa: N805 - self is ours.
                self.visited[name].append(self.tenant)
                if name == "session" and self.tenant == self.failing:
                    details = b"" if self.status is None else self.status.SerializeToString()
                    trailing = aio.Metadata((STATUS_DETAILS_KEY, details)) if details else aio.Metadata()
                    raise aio.AioRpcError(
                        self.code, aio.Metadata(), trailing, self.status.message if self.status else None
                    )
                return memory_pb2.DeleteExpiredResponse(deleted_count=1)

            async def EndIdleSessions(_self, _request: Any) -> session_pb2.EndIdleSessionsResponse:  # noqa: N805
                self.visited["idle"].append(self.tenant)
                # The first tenant has more than one call ends.
                more = self.visited["idle"].count(self.tenant) < 2 and self.tenant == TENANTS[0]
                return session_pb2.EndIdleSessionsResponse(ended_count=1, more=more)

        return Service()

    async def expiry(self) -> float | None:
        expiry = catalog.expiry(
            auth=self.service("auth"),
            tenancy=self.service("tenancy"),
            session=self.service("session"),
            memory=self.service("memory"),
            seconds=CADENCE,
        )
        visitor = TenantVisitor(cast("Any", self), at_once=1, has_machines=self.has_machines)
        rounds = TenantRounds(visitor, cast("Any", self), [expiry])
        return await rounds.handlers()["expiry"](b"", asyncio.Event())


async def test_it_runs_every_five_minutes() -> None:
    assert CADENCE == 300
    assert await FailingServices("", grpc.StatusCode.INTERNAL).expiry() == pytest.approx(CADENCE)


async def test_a_tenant_that_fails_keeps_no_other_waiting_and_makes_none_repeat() -> None:
    services = FailingServices("a", grpc.StatusCode.INTERNAL)

    assert await services.expiry() == pytest.approx(CADENCE)
    assert services.visited == {name: list(TENANTS) for name in ("tenancy", "session", "memory")} | {
        # First the rows of no tenant.
        "auth": ["", *TENANTS],
        "idle": [TENANTS[0], *TENANTS],
    }


async def test_a_service_that_is_away_ends_the_round_and_is_asked_again_soon() -> None:
    services = FailingServices("b", grpc.StatusCode.UNAVAILABLE)

    again = await services.expiry()

    assert again is not None
    assert again < CADENCE
    assert services.visited["session"] == ["a", "b"]
    assert services.visited["memory"] == []


@pytest.mark.parametrize(("has_machines", "visited"), [(True, list(TENANTS)), (False, ["a", "b"])])
async def test_tenants_on_the_other_machines_go_on_while_one_is_away(*, has_machines: bool, visited: list[str]) -> None:
    services = FailingServices("b", grpc.StatusCode.UNAVAILABLE, has_machines=has_machines)
    services.status = DatabaseUnavailable().status()

    await services.expiry()

    assert services.visited["session"] == visited
