"""The recall service's statements."""

from __future__ import annotations

from skein_kit.sql import Queries

QUERIES = Queries.of("skein_recall")
