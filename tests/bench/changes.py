"""`python tests/bench/changes.py`: prints what the event log's order costs the writers of one tenant.

Eight writers of one tenant beside one writer in each of eight tenants, taking turns: events alone, written to the log
through the service's own code, and CreateMemory through the gateway. Nothing here is asserted; a ratio of 1 says that
writers of one tenant do not wait for one another. The cluster is a `skein up` of its own, which waits for its disk.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
import uuid
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

# The folder of the tests, so that what lies in this one has a name.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import uvloop
from bench import report
from bench.subject import ONE_PROCESS, data_folder, running
from rich import box
from rich.table import Table

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_client.client import Client
from skein_kit.database.transactions import Database
from skein_kit.ids import now
from skein_memory.events import writer as event_writer
from skein_memory.events.model import Event

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from bench.subject import Subject

    Write = Callable[[int], Awaitable[object]]

WRITERS = 8
ROUNDS = 5
SECONDS = 2.0
_TIMEOUT = 30.0


async def rate(write: Write, tenants: Sequence[int]) -> float:
    """Return the writes a second of all writers together, each in its tenant."""
    done = itertools.count()
    started = time.perf_counter()

    async def writer(tenant: int) -> None:
        while time.perf_counter() < started + SECONDS:
            await write(tenant)
            next(done)

    await asyncio.gather(*(writer(tenant) for tenant in tenants))
    return next(done) / (time.perf_counter() - started)


async def compared(write: Write) -> tuple[float, float]:
    """Return the rate of one tenant's writers, and that of as many tenants: the middle ones of all rounds."""
    one, many = [], []
    for _ in range(ROUNDS):
        one.append(await rate(write, [0] * WRITERS))
        many.append(await rate(write, range(WRITERS)))
    return sorted(one)[ROUNDS // 2], sorted(many)[ROUNDS // 2]


async def tenants_of(subject: Subject, folder: Path) -> list[tuple[uuid.UUID, str]]:
    """Make as many tenants as there are writers; return their ids and keys."""
    operator_key = json.loads((folder / "credentials.json").read_text("utf-8"))["operator_key"]
    made = []
    async with Client(endpoint=subject.addresses["gateway"], api_key=operator_key) as operator:
        for number in range(WRITERS):
            tenant = tenancy_pb2.Tenant(display_name=f"tenant {number}")
            created = await operator.tenancy.CreateTenant(tenancy_pb2.CreateTenantRequest(tenant=tenant))
            key = await operator.auth.CreateApiKey(
                auth_pb2.CreateApiKeyRequest(display_name="bench"),
                metadata=(("skein-tenant-id", created.tenant.tenant_id),),
            )
            made.append((uuid.UUID(created.tenant.tenant_id), key.secret))
    return made


async def main() -> None:
    """Measure both kinds of writes and print them."""
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("writes", f"{WRITERS} writers of one tenant", f"{WRITERS} tenants", "ratio"):
        table.add_column(heading, justify="left" if heading == "writes" else "right")
    with data_folder() as folder:
        async with running(folder, ONE_PROCESS) as subject, AsyncExitStack() as stack:
            tenants = await tenants_of(subject, folder)
            database = await stack.enter_async_context(
                Database.open(subject.database_url, service="memory", size=WRITERS, timeout=_TIMEOUT)
            )
            clients = [
                await stack.enter_async_context(
                    Client(endpoint=subject.addresses["gateway"], api_key=key, timeout=_TIMEOUT)
                )
                for _, key in tenants
            ]

            async def record(number: int) -> None:
                tenant_id, _ = tenants[number]
                event = Event(type="memory_created", entity_type="memory", entity_id="x", summary="note created")
                async with database.transaction(tenant_id) as tx:
                    await event_writer.insert_events(tx, tenant_id, [event], at=now(), by="bench")

            async def create(number: int) -> None:
                memory = memory_pb2.Memory(content=f"The kettle is red {uuid.uuid4()}")
                await clients[number].memories.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))

            for name, write in (("events alone", record), ("CreateMemory", create)):
                one, many = await compared(write)
                table.add_row(name, f"{one:.0f}/s", f"{many:.0f}/s", f"{one / many:.2f}")
    report.console().print(table)


if __name__ == "__main__":
    uvloop.run(main())
