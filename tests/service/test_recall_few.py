"""A filter that few of many pass: those are looked for one by one, as exactly as all of them are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein_kit import postings
from skein_kit.ids import new_id, now

if TYPE_CHECKING:
    from fix_recall import Place

OTHERS = 90
VECTOR = np.random.default_rng(5).standard_normal(384).tolist()
FEW = memory_pb2.MemoryFilter(tags_any=["few"])


async def test_the_few_that_pass_are_all_found_whether_or_not_it_is_known_how_many_there_are(place: Place) -> None:
    documents = [postings.Document(item_id=new_id(now()), kind="memory", text="tea") for _ in range(OTHERS)]
    async with place.service.memory.tenant(place.tenant_id) as tx:
        await postings.put(tx, place.tenant_id, documents)
    for number in range(4):
        await place.remember(f"Kettle number {number}.")
    # Of several chunks, the last of which is no less its own.
    long = "The tide comes in twice a day. " * 60 + "Grandmother's ring lies in the blue tin."
    for content in ("A green bicycle.", long):
        await place.remember(content, tags=("few",))

    before = await place.recall(embedding=VECTOR, filter=FEW)
    while (await place.index.IndexBacklog(pb.IndexBacklogRequest())).more:
        pass
    after = await place.recall(embedding=VECTOR, filter=FEW)
    by_words = await place.found("Where is grandmother's ring?", filter=FEW, limit=1)

    assert {hit.memory.content for hit in before.hits} == {"A green bicycle.", long}
    assert [(hit.item_id, hit.similarity) for hit in after.hits] == [
        (hit.item_id, hit.similarity) for hit in before.hits
    ]
    assert after.dense_path == before.dense_path == "exact"
    assert by_words == [long]
