"""Words of documents that another version wrote: a reindex renews them."""

from __future__ import annotations

import uuid

from fix_cluster import Cluster, Tenant
from fix_models import EMBEDDED, Deployment

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein.session.v1 import session_pb2
from skein_kit.database.transactions import Database
from skein_recall.index.store import IndexStore
from skein_recall.providers.text_embedder import IndexItem
from skein_recall.service import prepare_connection

JOINED = "Peter/Maria bring the budget.xlsx to the station.Bring tea."
# What a version had stored that left words to Postgres' parser.
OLD_WORDS = """
    DELETE FROM recall.postings WHERE term IN ('maria', 'petermaria', 'budget', 'budgetxlsx', 'station', 'bring');
    UPDATE recall.documents SET words_version = 0
"""
POSTINGS = """
    SELECT item_id, term, frequency, header_frequency, length, record_time FROM recall.postings
    WHERE tenant_id = $1 ORDER BY item_id, term
"""
LENGTHS = "SELECT kind, count(*), sum(length) FROM recall.documents GROUP BY kind ORDER BY kind"
FORMER = "SELECT count(*) FROM recall.postings_history WHERE tenant_id = $1"


async def found(deployment: Deployment, query: str) -> list[str]:
    hits = (await deployment.tenant.recall(query, mode=pb.SEARCH_MODE_KEYWORD)).hits
    return [hit.item_id for hit in hits]


async def test_a_reindex_renews_the_words_of_an_older_version(deployment: Deployment) -> None:
    memory_id, message_id = await deployment.tenant.remember(JOINED), await deployment.tenant.say(JOINED)
    await deployment.tenant.remember("Marta keeps bees.")
    await deployment.backlog()
    async with deployment.service.superuser() as connection:
        await connection.execute(OLD_WORDS)
    assert await found(deployment, "Maria") == []
    assert set(await found(deployment, "tea")) == {memory_id, message_id}

    reindex = await deployment.start(EMBEDDED)
    renewed = await deployment.work()

    assert renewed == 3
    for query in ("Maria", "budget", "station", "Peter/Maria", "tea"):
        assert set(await found(deployment, query)) == {memory_id, message_id}, query
    done = await deployment.progress(reindex.reindex_id)
    assert (done.state, done.embedded_count, done.missing_count) == (pb.REINDEX_STATE_COMPLETE, 3, 0)
    assert await deployment.due() == []
    await deployment.backlog()
    async with deployment.service.superuser() as connection:
        counts = await connection.fetch("SELECT kind, documents, length FROM recall.corpora ORDER BY kind")
        lengths = await connection.fetch(LENGTHS)
    assert [tuple(row) for row in counts] == [tuple(row) for row in lengths]


async def test_words_that_are_the_same_stay_as_they_are(cluster: Cluster, tenant: Tenant) -> None:
    memory = memory_pb2.Memory(
        type="fact",
        title="Peter/Maria's trip",
        key="trip.plan",
        content=JOINED,
        tags=["v3.12.1", "Reise"],
        subject_id="Anna-Lena Berg",
        agent_id="Butler",
        scope=memory_pb2.SCOPE_GLOBAL,
        data={"detail": "by train"},
    )
    stored = await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
    messages = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, name="Zoë", content=JOINED)]
    appended = await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s", messages=messages, create_session=True)
    )
    item_ids = [uuid.UUID(stored.memory.memory_id), uuid.UUID(appended.messages[0].message_id)]
    tenant_id = uuid.UUID(str(tenant.tenant_id))
    async with cluster.superuser() as connection:
        before = await connection.fetch(POSTINGS, tenant_id)
        await connection.execute("UPDATE recall.documents SET words_version = 0 WHERE tenant_id = $1", tenant_id)

        async with Database.open(
            cluster.postgres.url(user="postgres", database="skein"),
            service="recall",
            size=2,
            timeout=30.0,
            init=prepare_connection,
        ) as database:
            await IndexStore(database).renew_words(tenant_id, [IndexItem(item_id, 1, "") for item_id in item_ids])

        versions = await connection.fetch(
            "SELECT words_version FROM recall.documents WHERE tenant_id = $1 AND item_id = ANY ($2)",
            tenant_id,
            item_ids,
        )
        assert {row["words_version"] for row in versions} == {1}
        assert await connection.fetch(POSTINGS, tenant_id) == before
        assert await connection.fetchval(FORMER, tenant_id) == 0
