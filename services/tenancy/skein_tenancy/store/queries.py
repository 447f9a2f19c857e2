"""The named queries of the tenancy service."""

from __future__ import annotations

from skein_kit.sql import Queries

QUERIES = Queries.of("skein_tenancy")
