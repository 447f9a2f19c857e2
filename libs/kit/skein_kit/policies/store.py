"""The policy of a tenant, as services read it: its changes over the defaults."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, tzinfo
from uuid import UUID
from weakref import WeakKeyDictionary
from zoneinfo import ZoneInfo

from asyncpg import Record

from skein_kit.database.named_queries import Queries, as_of
from skein_kit.database.transactions import Database, Transaction

# Seconds after which a change takes effect at the latest, as UpdatePolicy promises.
CACHE_SECONDS = 1.0
_MAX_CACHED = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """The policy of one tenant; the defaults apply until the tenant changes them."""

    decay_days: int = 30
    max_inferred_edges: int = 360
    min_link_suggestion_score: float = 0.25
    retention_days: int = 3650
    private_mode: bool = True
    snapshot_retention: int = 50
    path_max_hops: int = 5
    subgraph_default_radius: int = 2
    # "dynamic" or "weighted".
    importance_formula: str = "dynamic"
    # None: every type is accepted.
    memory_types: tuple[str, ...] = ()
    # A call whose access event cannot be recorded is refused.
    audit_strict: bool = False
    # The access log keeps the words of queries instead of a hash.
    audit_query_text: bool = False
    # Minutes without a message after which a session ends; 0: never.
    session_idle_minutes: int = 0
    # Days without a change after which rows go to cold storage; 0: never.
    archive_days: int = 0
    # Failed deliveries in a row after which a webhook is switched off.
    webhook_max_failures: int = 20
    # Whether a level that is full moves its least important memories down.
    enforce_level_capacities: bool = False
    capacity_strategic: int = 100
    capacity_tactical: int = 500
    capacity_operational: int = 2000
    capacity_contextual: int = 5000
    # The text search configuration that stems the words of items and of queries.
    search_language: str = "english"
    # The fusion of the signals of a search: "scores" or "ranks".
    recall_fusion: str = "scores"
    # Weights of signals that differ from the defaults; JSON text of an object.
    recall_weights: str = "{}"
    # The lowest relevance of a hit, where the request sets none.
    recall_min_relevance: float = 0.03
    recall_min_best_relevance: float = 0.07
    # Whether vectors of tokens are stored and compared.
    recall_token_vectors: bool = True
    # Hours after its expire_time at which a memory is purged.
    expiry_grace_hours: int = 24
    # What happens to secrets, and to personal data, in texts that callers write: "keep", "count", "redact", "seal"
    # (secrets of memories move to the vault) or "refuse".
    guard_secrets: str = "keep"
    guard_personal_data: str = "keep"
    # Kinds of findings that the guard leaves alone.
    guard_ignored_kinds: tuple[str, ...] = ()
    # Whose memories wait for approval: "none", "agents" or "all" (callers without the permission memory.approve).
    approval: str = "none"
    # Days after which a memory that waits expires.
    approval_expiry_days: int = 30
    # Whose answers get a receipt: "off", "sampled" or "all".
    recall_receipts: str = "off"
    # The zone of the days that conditions name; a name of the IANA time zone database.
    time_zone: str = "UTC"
    # The embedding model that the tenant chose; empty: the one that is active in the cluster.
    embedding_model: str = ""
    # What finds facts in messages: "off", "rules" or "model".
    extraction: str = "off"
    # Roles of the messages that count; none: those of people ("user").
    extraction_roles: tuple[str, ...] = ()
    # Messages after which a session is read at once, and seconds without a message after which it is read.
    extraction_messages: int = 20
    extraction_quiet_seconds: int = 30
    # What the language model should remember, in the tenant's own words, and the types of facts; none: all.
    extraction_instructions: str = ""
    extraction_types: tuple[str, ...] = ()
    # The tenant's own endpoint, its model, and the id of the vault's memory with its key; empty: the operator's.
    extraction_url: str = ""
    extraction_model: str = ""
    extraction_key_id: str = ""

    @property
    def zone(self) -> tzinfo:
        """Return the zone of the days that conditions and questions name."""
        return UTC if self.time_zone == "UTC" else ZoneInfo(self.time_zone)


DEFAULT = Policy()
_QUERY = Queries.load("skein_kit")["read_policy"]
_shared_caches: WeakKeyDictionary[Database, PolicyCache] = WeakKeyDictionary()
_NAMES = tuple(field.name for field in fields(Policy))
_LISTS = ("memory_types", "guard_ignored_kinds", "extraction_roles", "extraction_types")


def shared_policy_cache(database: Database) -> PolicyCache:
    """Return the policy cache that all users of this database share."""
    if database not in _shared_caches:
        _shared_caches[database] = PolicyCache()
    return _shared_caches[database]


class PolicyCache:
    """A cache of the policies of tenants, each for a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds and never goes back."""
        self._clock = clock
        # A policy from a replica is used only for transactions on replicas.
        self._cached: OrderedDict[tuple[UUID, bool], tuple[Policy, float]] = OrderedDict()

    def get_cached(self, tenant_id: UUID) -> Policy | None:
        """Return a tenant's policy if it is cached."""
        key = (tenant_id, False)
        policy, until = self._cached.get(key, (DEFAULT, 0.0))
        return policy if key in self._cached and self._clock() < until else None

    async def get(self, tx: Transaction, tenant_id: UUID) -> Policy:
        """Return the policy of the transaction's tenant; at most one round trip a second."""
        at = self._clock()
        key = (tenant_id, tx.database.is_replica)
        cached, until = self._cached.get(key, (DEFAULT, at))
        if at < until:
            return cached
        policy = _policy(await tx.row(_QUERY, tenant_id=tenant_id))
        self._cached[key] = (policy, at + CACHE_SECONDS)
        self._cached.move_to_end(key)
        if len(self._cached) > _MAX_CACHED:
            self._cached.popitem(last=False)
        return policy


async def read_policy_as_of(tx: Transaction, tenant_id: UUID) -> Policy:
    """Return the policy that the tenant had at the transaction's as_of_time; the defaults before its first change."""
    return _policy(await tx.row(as_of(_QUERY), tenant_id=tenant_id))


def _policy(row: Record | None) -> Policy:
    """Return the policy of a row, which is None for a tenant that has changed nothing."""
    changes = {} if row is None else {name: row[name] for name in _NAMES if row[name] is not None}
    changes |= {name: tuple(changes[name]) for name in _LISTS if name in changes}
    return Policy(**changes)
