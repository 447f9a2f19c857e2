-- active_model --
-- Read the active model, and the tenants whose new documents also get vectors of a followed model. The nil UUID stands
-- for all tenants. A model of caller vectors is never followed.
SELECT m.model, m.dimensions, m.table_name, ARRAY(
    SELECT coalesce(r.only_tenant_id, '00000000-0000-0000-0000-000000000000'::uuid)
    FROM recall.reindexes AS r
    JOIN recall.embedding_models AS other ON other.model = r.model
    WHERE r.cancel_time IS NULL AND r.model <> m.model AND other.provider <> 'caller'
) AS followed
FROM recall.embedding_models AS m
WHERE m.active;

-- insert_vector_origins --
-- Insert the origins of caller vectors.
INSERT INTO recall.vector_origins (tenant_id, item_id, model, provider)
VALUES (:tenant_id, :item_id, :model, :provider);

-- insert_vectors --
-- Insert the vectors of documents, one for each chunk of the text, with the codes of the chunk's tokens if there are any.
INSERT INTO recall.{table} (tenant_id, item_id, chunk, kind, embedding, rest, tokens)
VALUES (:tenant_id, :item_id, :chunk, :kind, :embedding, :rest, :tokens);
