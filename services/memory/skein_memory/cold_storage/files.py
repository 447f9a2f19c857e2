"""Archives of memories together with their files."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from skein_kit.cold_storage.files import FileInfo
from skein_kit.errors import ArchiveDamaged
from skein_memory.cold_storage import rows
from skein_memory.errors import ArchiveNotFound
from skein_memory.queries import QUERIES
from skein_memory.store_base import Store

if TYPE_CHECKING:
    from uuid import UUID

    import asyncpg

    from skein_kit.cold_storage.files import ColdFiles
    from skein_memory.store_base import Tables


class ArchiveReader(Store):
    """A store that reads what lies in archives."""

    def __init__(self, tables: Tables, cold: ColdFiles) -> None:
        """Use what all stores share, and the files."""
        super().__init__(tables)
        self._cold = cold

    async def _read(self, tenant_id: UUID, archive_id: UUID) -> tuple[asyncpg.Record, dict[str, list[dict[str, Any]]]]:
        """Read an archive and its file. Raises ArchiveNotFound and ArchiveDamaged."""
        checksum = None
        while True:
            async with self._database.tenant(tenant_id) as tx:
                archive = await tx.row(QUERIES["get_archive"], tenant_id=tenant_id, archive_id=archive_id)
            if archive is None:
                raise ArchiveNotFound
            try:
                written = FileInfo(checksum=archive["checksum"], byte_count=archive["byte_count"])
                lines = await self._cold.read(tenant_id, archive_id, written)
                return archive, await asyncio.to_thread(rows.parse_lines, lines)
            except ArchiveDamaged:
                # Somebody else may just have restored it, or changed what is in it.
                if checksum == archive["checksum"]:
                    raise
            checksum = archive["checksum"]
