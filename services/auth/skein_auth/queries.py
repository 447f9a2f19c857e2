"""The named queries of the auth service."""

from __future__ import annotations

from skein_kit.database.named_queries import Queries

QUERIES = Queries.load("skein_auth")
