"""Every table in which the memory service keeps something of a tenant, children before parents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.sql import Queries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skein_kit.sql import Query

_QUERIES = Queries.of("skein_memory")

TABLES: Mapping[str, Query] = {
    "memory.changes": _QUERIES["purge_changes"],
    "memory.versions": _QUERIES["purge_versions"],
    "memory.revisions": _QUERIES["purge_revisions"],
    "memory.accesses": _QUERIES["purge_accesses"],
    "memory.links": _QUERIES["purge_links"],
    "memory.tags": _QUERIES["purge_tags"],
    "memory.external_ids": _QUERIES["purge_external_ids"],
    "memory.fact_keys": _QUERIES["purge_fact_keys"],
    "memory.entries": _QUERIES["purge_entries"],
    "memory.usage": _QUERIES["purge_usage"],
    "memory.requests": _QUERIES["purge_requests"],
}
