"""What every store of the service draws from."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_kit.database.transactions import Database
    from skein_kit.idempotency.store import IdempotencyStore
    from skein_kit.policies.store import Policies
    from skein_kit.quotas.store import QuotaCounter
    from skein_memory.vault.store import Vault


class Tables:
    """The service's pool, stored answers, counts, the tenants' policies, and what seals their secrets."""

    def __init__(
        self, database: Database, *, requests: IdempotencyStore, quotas: QuotaCounter, policies: Policies, vault: Vault
    ) -> None:
        """Share these among the stores."""
        self.database = database
        self.requests = requests
        self.quotas = quotas
        self.policies = policies
        self.vault = vault


class Store:
    """A group of statements over the tables."""

    def __init__(self, tables: Tables) -> None:
        """Use what all stores share."""
        self._database = tables.database
        self._requests = tables.requests
        self._quotas = tables.quotas
        self._policies = tables.policies
        self._vault = tables.vault
