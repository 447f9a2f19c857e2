"""Archives of memories together with their files: reads of both."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from skein_kit.cold_storage.files import FileInfo
from skein_kit.errors import ArchiveDamaged
from skein_memory.cold_storage import rows
from skein_memory.errors import ArchiveNotFound
from skein_memory.queries import QUERIES

if TYPE_CHECKING:
    from uuid import UUID

    import asyncpg

    from skein_kit.cold_storage.files import ColdFiles
    from skein_kit.database.transactions import Database


class ArchiveReader:
    """Reads archives."""

    def __init__(self, database: Database, *, cold: ColdFiles) -> None:
        """Read the files of `cold`."""
        self._database = database
        self._cold = cold

    async def read(self, tenant_id: UUID, archive_id: UUID) -> tuple[asyncpg.Record, dict[str, list[dict[str, Any]]]]:
        """Read an archive and its file. Raises ArchiveNotFound and ArchiveDamaged."""
        checksum = None
        while True:
            async with self._database.transaction(tenant_id) as tx:
                archive = await tx.row(QUERIES["get_archive"], tenant_id=tenant_id, archive_id=archive_id)
            if archive is None:
                raise ArchiveNotFound
            try:
                written = FileInfo(checksum=archive["checksum"], byte_count=archive["byte_count"])
                lines = await self._cold.read(tenant_id, archive_id, written)
                return archive, await asyncio.to_thread(rows.parse_lines, lines)
            except ArchiveDamaged:
                # Another process may just have unarchived the archive, or changed its file.
                if checksum == archive["checksum"]:
                    raise
            checksum = archive["checksum"]
