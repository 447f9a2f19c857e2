"""The named queries of the recall service."""

from __future__ import annotations

from skein_kit.database.named_queries import Queries

QUERIES = Queries.load("skein_recall")
