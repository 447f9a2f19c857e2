"""The recall service's statements."""

from __future__ import annotations

from skein_kit.database.named_queries import Queries, left_join

QUERIES = Queries.of("skein_recall")
# The first of what is found is read in the same round trip, as far as it is memories.
LISTED_READ = left_join(
    QUERIES["nearest_listed"],
    QUERIES["get_memories"],
    on="other.memory_id = found.item_id AND found.chunk = 0 AND NOT found.is_new",
    # Of an array that the planner knows to have one element it believes that any index will do: it knows none of these.
    memory_ids="ARRAY(SELECT found.item_id FROM found WHERE found.kind = 'memory' "
    "AND found.chunk = 0 AND NOT found.is_new AND found.item_id = ANY (:shown_ids::uuid[]))",
)
NEAREST_READ = left_join(
    QUERIES["nearest"],
    QUERIES["get_memories"],
    # A long memory may have many chunks among them: it stands beside the nearest one.
    columns="*, row_number() OVER (PARTITION BY given.item_id ORDER BY given.distance) AS place",
    on="other.memory_id = found.item_id AND found.place = 1",
    memory_ids="ARRAY(SELECT found.item_id FROM found "
    "WHERE found.kind = 'memory' AND found.place = 1 ORDER BY found.distance LIMIT :first)",
)
