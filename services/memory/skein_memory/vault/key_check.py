"""The check at start that the master keys of all tenant keys are configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg

from skein_kit.errors import RpcError
from skein_kit.settings import SettingInvalid
from skein_kit.telemetry import logs
from skein_memory.vault.store import master_keys_in_use

if TYPE_CHECKING:
    from skein_kit.database.transactions import Database
    from skein_memory.vault.encryption import MasterKeys

log = logs.get("memory")


class MasterKeyCheck:
    """Asks the database once which master keys are in use."""

    def __init__(self, database: Database, master_keys: MasterKeys) -> None:
        """Compare the keys that the database needs with these."""
        self._database = database
        self._master_keys = master_keys
        self._is_settled = False
        self._said = ""

    async def at_start(self) -> None:
        """Raise SettingInvalid when a key is missing. A database that is away or empty is asked later, by `ready`."""
        try:
            await self._settle()
        except (RpcError, asyncpg.PostgresError):
            return

    async def ready(self) -> bool:
        """Return whether no key is missing, and log what is."""
        try:
            await self._settle()
        except SettingInvalid as invalid:
            if str(invalid) != self._said:
                log.error("master_key_missing", problem=str(invalid))  # noqa: TRY400 - the trace says nothing more.
            self._said = str(invalid)
            return False
        return True

    async def _settle(self) -> None:
        if not self._is_settled:
            self._master_keys.check_has(await master_keys_in_use(self._database))
            self._is_settled = True
