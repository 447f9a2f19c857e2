"""The named queries of the memory service."""

from __future__ import annotations

from skein_kit.database.named_queries import Queries

QUERIES = Queries.load("skein_memory")
