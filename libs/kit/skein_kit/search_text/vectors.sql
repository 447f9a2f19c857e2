-- space_in_force --
-- Read the model whose vectors are searched, and the tenants in which another one gets vectors of what is written as well;
-- the nil tenant stands for all. A model whose vectors callers bring gets none.
SELECT m.model, m.dimensions, m.table_name, ARRAY(
    SELECT coalesce(r.only_tenant_id, '00000000-0000-0000-0000-000000000000'::uuid)
    FROM recall.reindexes AS r
    JOIN recall.embedding_models AS other ON other.model = r.model
    WHERE r.cancel_time IS NULL AND r.model <> m.model AND other.provider <> 'caller'
) AS followed
FROM recall.embedding_models AS m
WHERE m.active;

-- insert_vector_origins --
-- Note which caller's model made vectors that came with an item.
INSERT INTO recall.vector_origins (tenant_id, item_id, model, provider)
VALUES (:tenant_id, :item_id, :model, :provider);

-- insert_vectors --
-- Store the vectors of items, one for each chunk of the text.
INSERT INTO recall.{table} (tenant_id, item_id, chunk, kind, embedding, rest)
VALUES (:tenant_id, :item_id, :chunk, :kind, :embedding, :rest);
