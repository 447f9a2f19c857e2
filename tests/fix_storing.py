"""A process that stores and restores sessions without end, to be killed.

Its arguments: the database, the folder, the tenant, and the sessions.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from uuid import UUID

from skein_kit.cold_storage import ColdFiles
from skein_kit.database.monthly_partitions import MonthlyPartitions
from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database
from skein_kit.ids import now
from skein_kit.policies.store import PolicyCache
from skein_session.cold_storage.store import ColdStorageStore


async def main(url: str, folder: str, tenant: str, *session_ids: str) -> None:
    tenant_id = UUID(tenant)
    async with Database.open(url, service="session", size=2, timeout=5) as database:
        months = MonthlyPartitions(database, Queries.load("skein_session")["ensure_month"])
        archives = ColdStorageStore(database, PolicyCache(), months, ColdFiles(Path(folder)))
        sys.stdout.write("begun\n")
        sys.stdout.flush()
        while True:
            for session_id in session_ids:
                at = now()
                async with (
                    archives.pending_file(tenant_id, session_id, at) as file,
                    database.transaction(tenant_id) as tx,
                ):
                    await archives.archive_session(tx, tenant_id, session_id, file, at=at, archived_by="killed")
            await archives.unarchive_all(tenant_id, session_ids, now())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
