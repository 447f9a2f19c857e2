"""The recall service's statements."""

from __future__ import annotations

from skein_kit.sql import Queries, beside

QUERIES = Queries.of("skein_recall")
# The first of what is found is read in the same round trip, as far as it is memories.
LISTED_READ = beside(
    QUERIES["nearest_listed"],
    QUERIES["get_memories"],
    on="other.memory_id = found.item_id AND found.chunk = 0 AND NOT found.is_new",
    # Of an array that the planner knows to have one element it believes that any index will do: it knows none of these.
    memory_ids="ARRAY(SELECT found.item_id FROM found "
    "WHERE found.kind = 'memory' AND NOT found.is_new AND found.item_id = ANY (:shown_ids::uuid[]))",
)
NEAREST_READ = beside(
    QUERIES["nearest"],
    QUERIES["get_memories"],
    on="other.memory_id = found.item_id",
    memory_ids="ARRAY(SELECT DISTINCT first.item_id FROM (SELECT found.item_id, found.kind FROM found "
    "ORDER BY found.distance LIMIT :first) AS first WHERE first.kind = 'memory')",
)
