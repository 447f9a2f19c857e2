"""Two of every service on a Postgres with a replica, killed in turn while callers write and read.

`make soak` kills both processes of each service, and the PgBouncer that it puts between.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from fix_cluster import test_environment
from fix_several import Several, not_lost, running_several

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
async def several() -> AsyncIterator[Several]:
    async with running_several(test_environment(), pooled=False) as running:
        yield running


async def test_a_killed_process_of_each_kind_loses_nothing(
    several: Several,
) -> None:
    await not_lost(several, [part for part in several.parts if part.number == 0])
