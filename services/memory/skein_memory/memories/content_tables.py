"""Every table that holds content of memories, with the query that deletes the rows of purged memories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_memory.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skein_kit.database.named_queries import Query

# Every table that holds something of what memories say, children before the memories themselves. Each query removes
# what belongs to `memory_ids`. A table that is not listed goes with its memory as well, by its foreign key, uncounted.
CONTENT_TABLES: Mapping[str, Query] = {
    "memory.versions": QUERIES["erase_versions"],
    "memory.revisions": QUERIES["erase_revisions"],
    "memory.accesses": QUERIES["erase_accesses"],
    "memory.links": QUERIES["erase_links"],
    "memory.waiting": QUERIES["erase_waiting"],
    "memory.tags": QUERIES["erase_tags"],
    "memory.properties": QUERIES["erase_properties"],
    "memory.external_ids": QUERIES["erase_external_ids"],
    "memory.fact_keys": QUERIES["erase_fact_keys"],
    "memory.secrets": QUERIES["erase_secrets"],
    "memory.tasks": QUERIES["erase_tasks"],
    "memory.aliases": QUERIES["erase_aliases"],
    "memory.conflict_resolutions": QUERIES["erase_conflict_resolutions"],
    "memory.snapshot_items": QUERIES["erase_snapshot_items"],
    "recall.documents": QUERIES["erase_documents"],
    "memory.entries": QUERIES["erase_entries"],
}
