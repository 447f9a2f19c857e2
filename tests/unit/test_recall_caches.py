"""What recall keeps in memory by tenant, and that all of a tenant can be dropped."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from skein_kit.ids import new_ids
from skein_recall.quality.recent_queries import RecentQueries
from skein_recall.query_cache import QueryCache

TENANT, OTHER = new_ids(datetime(2026, 3, 1, tzinfo=UTC), 2)


class Model:
    """Makes vectors, and counts them."""

    def __init__(self) -> None:
        self.runs = 0
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def make(self) -> NDArray[np.float32]:
        self.runs += 1
        await self.may_go_on.wait()
        return np.zeros(3, dtype=np.float32)


async def test_a_dropped_scope_has_its_vectors_made_anew_and_others_keep_theirs() -> None:
    model, remembered = Model(), QueryCache()
    for scope in ("a", "b"):
        await remembered.vector("tea", scope, model.make)

    remembered.drop("a")
    await remembered.vector("tea", "b", model.make)
    assert model.runs == 2
    await remembered.vector("tea", "a", model.make)

    assert model.runs == 3


async def test_a_vector_that_is_being_made_while_its_scope_is_dropped_is_not_kept() -> None:
    model, remembered = Model(), QueryCache()
    model.may_go_on.clear()
    asking = asyncio.create_task(remembered.vector("tea", "a", model.make))
    while not model.runs:
        await asyncio.sleep(0)

    remembered.drop(None)
    model.may_go_on.set()
    await asking
    await remembered.vector("tea", "a", model.make)

    assert model.runs == 2


def test_the_queries_of_a_dropped_tenant_are_gone() -> None:
    recent = RecentQueries()
    for tenant_id in (TENANT, OTHER):
        recent.note(tenant_id, "tea")

    recent.drop(TENANT)
    assert (recent.of(TENANT, 9), recent.of(OTHER, 9)) == ([], ["tea"])
    recent.drop(None)

    assert recent.tenants() == []
