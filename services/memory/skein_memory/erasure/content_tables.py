"""The tables with content of memories, from which a purge removes them."""

from __future__ import annotations

from collections.abc import Mapping

from skein_kit.database.named_queries import Query
from skein_memory.queries import QUERIES

# Every table with content of memories, children before the memories themselves, and former rows last. Each query purges
# the rows of `memory_ids`. Rows of other tables are purged by their foreign keys, uncounted.
CONTENT_TABLES: Mapping[str, Query] = {
    "memory.versions": QUERIES["purge_memory_versions"],
    "memory.revisions": QUERIES["purge_memory_revisions"],
    "memory.access_counts": QUERIES["purge_access_counts"],
    "memory.links": QUERIES["purge_memory_links"],
    "memory.sources": QUERIES["purge_memory_sources"],
    "memory.trust": QUERIES["purge_memory_trust"],
    "memory.pending_rows": QUERIES["purge_pending_rows"],
    "memory.pending_memories": QUERIES["purge_pending_memories"],
    "memory.tags": QUERIES["purge_memory_tags"],
    "memory.properties": QUERIES["purge_memory_properties"],
    "memory.external_ids": QUERIES["purge_memory_external_ids"],
    "memory.fact_keys": QUERIES["purge_memory_fact_keys"],
    "memory.secrets": QUERIES["purge_memory_secrets"],
    "memory.tasks": QUERIES["purge_memory_tasks"],
    "memory.aliases": QUERIES["purge_memory_aliases"],
    "memory.conflict_resolutions": QUERIES["purge_memory_conflict_resolutions"],
    "memory.snapshot_items": QUERIES["purge_memory_snapshot_items"],
    "recall.documents": QUERIES["purge_memory_documents"],
    "memory.memories": QUERIES["purge_memories"],
    # After the tables whose former rows they keep.
    "memory.sources_history": QUERIES["purge_memory_sources_history"],
    "memory.trust_history": QUERIES["purge_memory_trust_history"],
    "memory.aliases_history": QUERIES["purge_memory_aliases_history"],
    "memory.conflict_resolutions_history": QUERIES["purge_memory_conflict_resolutions_history"],
}
