"""Statements that find items and read the first memories among them, in one round trip."""

from __future__ import annotations

from skein_kit.database.named_queries import left_join
from skein_recall.queries import QUERIES

COMPARE_AND_READ_SHORTLIST = left_join(
    QUERIES["compare_shortlist"],
    QUERIES["get_memories"],
    on="other.memory_id = found.item_id AND found.chunk = 0 AND NOT found.is_new",
    # The planner must not know the length of the array: for one element it would take any index.
    memory_ids="ARRAY(SELECT found.item_id FROM found WHERE found.kind = 'memory' "
    "AND found.chunk = 0 AND NOT found.is_new AND found.item_id = ANY (:shown_ids::uuid[]))",
    first_of_memory_ids=":first_of_shown_ids",
    last_of_memory_ids=":last_of_shown_ids",
)
NEAREST_AND_READ = left_join(
    QUERIES["nearest"],
    QUERIES["get_memories"],
    # Of a long memory with several chunks, the row of the nearest one has its columns.
    columns="*, row_number() OVER (PARTITION BY given.item_id ORDER BY given.distance) AS place",
    on="other.memory_id = found.item_id AND found.place = 1",
    memory_ids="ARRAY(SELECT found.item_id FROM found "
    "WHERE found.kind = 'memory' AND found.place = 1 ORDER BY found.distance LIMIT :first)",
    # No id is known before.
    first_of_memory_ids="'00000000-0000-0000-0000-000000000000'",
    last_of_memory_ids="'ffffffff-ffff-ffff-ffff-ffffffffffff'",
)
