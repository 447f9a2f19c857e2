"""Every table in which the memory service keeps something of a tenant, children before parents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skein_kit.database.named_queries import Query

_QUERIES = Queries.of("skein_memory")

TENANT_TABLES: Mapping[str, Query] = {
    "memory.waiting": _QUERIES["purge_waiting"],
    "memory.archived": _QUERIES["purge_archived"],
    "memory.archives": _QUERIES["purge_archives"],
    "memory.deliveries": _QUERIES["purge_deliveries"],
    "memory.watches": _QUERIES["purge_watches"],
    "memory.changes": _QUERIES["purge_changes"],
    "memory.versions": _QUERIES["purge_versions"],
    "memory.revisions": _QUERIES["purge_revisions"],
    "memory.access_log": _QUERIES["purge_access_log"],
    "memory.access_keys": _QUERIES["purge_access_keys"],
    "memory.erasures": _QUERIES["purge_erasures"],
    "memory.accesses": _QUERIES["purge_accesses"],
    "memory.block_agents": _QUERIES["purge_block_agents"],
    "memory.blocks": _QUERIES["purge_blocks"],
    "memory.conflict_resolutions": _QUERIES["purge_conflict_resolutions"],
    "memory.aliases": _QUERIES["purge_aliases"],
    "memory.source_trust": _QUERIES["purge_source_trust"],
    "memory.secrets": _QUERIES["purge_secrets"],
    "memory.tenant_keys": _QUERIES["purge_tenant_keys"],
    "memory.tasks": _QUERIES["purge_tasks"],
    "memory.snapshot_items": _QUERIES["purge_snapshot_items"],
    "memory.snapshots": _QUERIES["purge_snapshots"],
    "memory.links": _QUERIES["purge_links"],
    "memory.tags": _QUERIES["purge_tags"],
    "memory.properties": _QUERIES["purge_properties"],
    "memory.tombstones": _QUERIES["purge_tombstones"],
    "memory.tombstone_salts": _QUERIES["purge_tombstone_salts"],
    "memory.external_ids": _QUERIES["purge_external_ids"],
    "memory.fact_keys": _QUERIES["purge_fact_keys"],
    "memory.entries": _QUERIES["purge_entries"],
    "memory.usage": _QUERIES["purge_usage"],
    "memory.requests": _QUERIES["purge_requests"],
}
