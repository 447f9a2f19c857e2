"""The recall service's statements."""

from __future__ import annotations

from skein_kit.sql import Queries, beside

QUERIES = Queries.of("skein_recall")
# Some of the items named are read in the same round trip, each beside its first chunk. Of an array that the planner
# knows to have one element it believes that any index will do.
NEAREST_READ = beside(
    QUERIES["nearest_listed"],
    QUERIES["get_memories"],
    memory_ids="ARRAY(SELECT found.item_id WHERE found.kind = 'memory' "
    "AND found.chunk = 0 AND NOT found.is_new AND found.item_id = ANY (:shown_ids::uuid[]))",
)
