"""Links in the database."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from google.protobuf.message import Message

from skein_kit.database import refusing
from skein_memory.errors import LinkExists, LinkNotFound, MemoryNotFound
from skein_memory.links import Link
from skein_memory.store import names
from skein_memory.store.queries import QUERIES
from skein_memory.store.tables import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    import asyncpg

    from skein_kit.database import Transaction
    from skein_kit.requests import Once

Response = TypeVar("Response", bound=Message)

_AFTER_ALL = UUID(int=(1 << 128) - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """Which links of a memory are asked for; relation None asks for all."""

    outgoing: bool
    incoming: bool
    relation: str | None


class LinkStore(Store):
    """Reads and writes links."""

    async def create_link(
        self,
        tenant_id: UUID,
        once: Once,
        ends: tuple[str, str],
        between: Callable[[UUID, UUID], Link],
        respond: Callable[[Link], Response],
    ) -> Response | bytes:
        """Store the link that `between` makes of the memories that `ends` name; or return the request's first answer.

        Raises MemoryNotFound, LinkExists and QuotaExceeded.
        """
        async with self._database.tenant(tenant_id) as tx:
            first = await self._requests.claim(tx, tenant_id, once)
            if first is not None:
                return first
            found = await names.read(tx, QUERIES["find_active"], tenant_id, ends)
            if not found.keys() >= set(ends):
                raise MemoryNotFound
            link = between(*(found[name]["memory_id"] for name in ends))
            with refusing(_REFUSALS):
                await tx.execute(QUERIES["insert_link"], tenant_id=tenant_id, **asdict(link))
            response = respond(link)
            await self._requests.answer(tx, tenant_id, once, response)
            await self._quotas.charge(tx, tenant_id, {"links": 1})
        return response

    async def delete_link(self, tenant_id: UUID, once: Once, link_id: UUID, response: Message) -> None:
        """Remove a link, once for each request, whose answer is `response`. Raises LinkNotFound."""
        async with self._database.tenant(tenant_id) as tx:
            if await self._requests.claim(tx, tenant_id, once, answer=response) is not None:
                return
            if not await tx.execute(QUERIES["delete_link"], tenant_id=tenant_id, link_id=link_id):
                raise LinkNotFound
            await self._quotas.charge(tx, tenant_id, {"links": -1})

    async def list_links(
        self, tenant_id: UUID, name: str, question: Question, *, before: UUID | None, count: int
    ) -> list[Link]:
        """Read up to `count` links of a memory that are older than `before`, newest first. Raises MemoryNotFound."""
        last = before or _AFTER_ALL
        links: list[asyncpg.Record] = []
        async with self._database.tenant(tenant_id) as tx:
            found = await names.read(tx, QUERIES["find_active"], tenant_id, [name])
            if name not in found:
                raise MemoryNotFound
            memory_id = found[name]["memory_id"]
            while len(links) < count:
                rows = await tx.rows(
                    QUERIES["list_links"],
                    tenant_id=tenant_id,
                    memory_id=memory_id,
                    before_id=last,
                    outgoing=question.outgoing,
                    incoming=question.incoming,
                    relation=question.relation,
                    count=count,
                )
                links += await _alive(tx, tenant_id, rows)
                if len(rows) < count:
                    break
                last = rows[-1]["link_id"]
        return [Link(**dict(row)) for row in links[:count]]


async def _alive(tx: Transaction, tenant_id: UUID, links: list[asyncpg.Record]) -> list[asyncpg.Record]:
    """Leave out links to deleted memories. Their ids are given by value, as a join would plan every month."""
    if not links:
        return []
    ends = {row[end] for row in links for end in ("from_memory_id", "to_memory_id")}
    rows = await tx.rows(QUERIES["find_active"], tenant_id=tenant_id, memory_ids=list(ends))
    active = {row["memory_id"] for row in rows}
    return [row for row in links if row["from_memory_id"] in active and row["to_memory_id"] in active]


_REFUSALS = {
    "links_pair_key": LinkExists,
    "links_from_fkey": MemoryNotFound,
    "links_to_fkey": MemoryNotFound,
}
