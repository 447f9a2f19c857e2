"""The named queries of the tenancy service."""

from __future__ import annotations

from skein_kit.database.named_queries import Queries

QUERIES = Queries.load("skein_tenancy")
