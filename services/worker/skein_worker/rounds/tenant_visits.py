"""Visits of the tenants that have work, a few at a time. A tenant without progress is visited less and less often.

The services list the tenants with work, so a tenant that rests costs nothing. In each tenant the worker acts by itself.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from skein_kit.errors import DatabaseUnavailable, reason_of_call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from skein_worker.system_identity import SystemIdentity

    # Visits one tenant; returns whether the visit made progress.
    Visit = Callable[[str], Awaitable[bool | None]]
    # Returns a page of the tenants with work: a response with tenant_ids and next_page_token.
    ListDueTenants = Callable[[Any], Awaitable[Any]]

_TENANTS_PER_PAGE = 200
_LIST_SECONDS = 30.0
# Errors of the cluster, which the next tenant would get too.
_CLUSTER_FAULTS = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
)


@dataclass(slots=True)
class IdleBackoff:
    """When this worker visits each tenant with work again; a tenant that it has not visited is due at once.

    A tenant with progress is due in the next round. Each visit without doubles the pause, up to `max_seconds`.
    """

    # Seconds between two rounds.
    seconds: float
    max_seconds: float
    _due_times: dict[str, float] = field(default_factory=dict)
    _pauses: dict[str, float] = field(default_factory=dict)

    def is_due(self, tenant_id: str, at: float) -> bool:
        """Return whether to visit a tenant at a time of the event loop's clock."""
        return self._due_times.get(tenant_id, 0.0) <= at

    def record_visit(self, tenant_id: str, at: float, *, active: bool) -> None:
        """Set when the next visit is due; `active` says that the visit made progress."""
        if active:
            self._due_times.pop(tenant_id, None)
            self._pauses.pop(tenant_id, None)
            return
        pause = min(self.max_seconds, 2 * self._pauses.get(tenant_id, self.seconds / 2))
        self._pauses[tenant_id] = pause
        # Half a round earlier, so that a tenant that is due just after the start of a round does not wait for another.
        self._due_times[tenant_id] = at + pause - self.seconds / 2

    def retain_only(self, tenant_ids: set[str], at: float) -> None:
        """Drop all other tenants whose pause is over."""
        for tenant_id in self._pauses.keys() - tenant_ids:
            if self.is_due(tenant_id, at):
                del self._pauses[tenant_id], self._due_times[tenant_id]


@dataclass(frozen=True, slots=True)
class TenantCall:
    """A call of a round in one tenant."""

    tenant_id: str
    # The stage in the round, and the call in the stage.
    stage_index: int
    call_index: int
    # Empty: the default space.
    space_id: str = ""


@dataclass(kw_only=True, slots=True)
class RoundProgress:
    """The progress of one round over tenants."""

    # Set when the worker stops.
    stop: asyncio.Event
    # None: every tenant is visited.
    backoff: IdleBackoff | None = None
    visited_count: int = 0
    # All tenants with work, visited or not.
    tenant_ids: set[str] = field(default_factory=set)
    # How many visits failed, by status code, or DATABASE_UNAVAILABLE for those on a machine that is away.
    failures: dict[str, int] = field(default_factory=dict)
    has_cluster_fault: bool = False
    # Tenants lie on several machines of a Citus cluster: where one is away, those on the others go on.
    has_machines: bool = False
    # Seconds after which calls whose job is paused or limited are repeated.
    retry_seconds: dict[TenantCall, float] = field(default_factory=dict)

    @property
    def is_stopped(self) -> bool:
        """Whether the round ends before all tenants are visited."""
        return self.has_cluster_fault or self.stop.is_set()

    def add_limited(self, tenant_call: TenantCall, seconds: float) -> None:
        """Record when a call may continue in a tenant."""
        self.retry_seconds[tenant_call] = seconds

    def add_failure(self, error: aio.AioRpcError) -> None:
        """Count a failed visit; NOT_FOUND is no failure, because the tenant has been deleted meanwhile."""
        if error.code() is grpc.StatusCode.NOT_FOUND:
            return
        is_of_machine = self.has_machines and reason_of_call(error) == DatabaseUnavailable.reason
        self._count(DatabaseUnavailable.reason if is_of_machine else error.code().name)
        self.has_cluster_fault = self.has_cluster_fault or (error.code() in _CLUSTER_FAULTS and not is_of_machine)

    def add_failed_list(self, error: aio.AioRpcError) -> None:
        """Count a list of tenants that failed: without it the coordinator is away, too."""
        self._count(error.code().name)
        self.has_cluster_fault = self.has_cluster_fault or error.code() in _CLUSTER_FAULTS

    def _count(self, name: str) -> None:
        self.failures[name] = self.failures.get(name, 0) + 1


class TenantVisitor:
    """Visits tenants with work."""

    def __init__(self, system: SystemIdentity, *, at_once: int, has_machines: bool = False) -> None:
        """Visit `at_once` tenants at the same time, which lie on several machines if it `has_machines`."""
        self._system = system
        self._at_once = at_once
        self._has_machines = has_machines

    def begin(self, stop: asyncio.Event, backoff: IdleBackoff | None = None) -> RoundProgress:
        """Begin a round, which ends early when `stop` is set."""
        return RoundProgress(stop=stop, backoff=backoff, has_machines=self._has_machines)

    async def visit_due(self, list_due: ListDueTenants, request: Any, visit: Visit, progress: RoundProgress) -> None:
        """Visit the tenants that a service lists for a request, unless they wait for the end of their backoff."""
        pages = self._pages(list_due, request)
        is_complete = await visit_tenants(pages, visit, progress, at_once=self._at_once)
        if is_complete and progress.backoff is not None:
            progress.backoff.retain_only(progress.tenant_ids, asyncio.get_running_loop().time())

    async def visit_each(self, tenant_ids: Sequence[str], visit: Visit, progress: RoundProgress) -> None:
        """Visit these tenants, unless they wait for the end of their backoff."""

        async def page() -> AsyncIterator[Sequence[str]]:
            yield tenant_ids

        await visit_tenants(page(), visit, progress, at_once=self._at_once)

    async def _pages(self, list_due: ListDueTenants, request: Any) -> AsyncIterator[Sequence[str]]:
        request.page_size = _TENANTS_PER_PAGE
        async for response in list_pages(self._system, list_due, request):
            yield list(response.tenant_ids)


async def list_pages(system: SystemIdentity, call: Callable[[Any], Awaitable[Any]], request: Any) -> AsyncIterator[Any]:
    """Yield the responses of a list, page by page. Raises AioRpcError."""
    while True:
        async with system.as_system(seconds=_LIST_SECONDS):
            response = await call(request)
        yield response
        request.page_token = response.next_page_token
        if not request.page_token:
            return


async def visit_tenants(
    pages: AsyncIterator[Sequence[str]], visit: Visit, progress: RoundProgress, *, at_once: int
) -> bool:
    """Visit the due tenants of some pages, `at_once` at the same time; return whether all pages were read.

    An AioRpcError of a visit or of the pages is a failure of the round.
    """
    try:
        async for page in pages:
            tenant_ids = iter(page)
            async with asyncio.TaskGroup() as group:
                for _ in range(at_once):
                    group.create_task(_visit_each(tenant_ids, visit, progress))
            if progress.is_stopped:
                return False
    except aio.AioRpcError as error:
        progress.add_failed_list(error)
        return False
    return True


async def _visit_each(tenant_ids: Iterator[str], visit: Visit, progress: RoundProgress) -> None:
    loop, backoff = asyncio.get_running_loop(), progress.backoff
    for tenant_id in tenant_ids:
        if progress.is_stopped:
            return
        progress.tenant_ids.add(tenant_id)
        if backoff is not None and not backoff.is_due(tenant_id, loop.time()):
            continue
        try:
            active = await visit(tenant_id)
        except aio.AioRpcError as error:
            progress.add_failure(error)
            if backoff is not None and error.code() is grpc.StatusCode.NOT_FOUND:
                # The rows of a deleted tenant wait for its purge.
                backoff.record_visit(tenant_id, loop.time(), active=False)
        else:
            progress.visited_count += 1
            if backoff is not None:
                backoff.record_visit(tenant_id, loop.time(), active=bool(active))
