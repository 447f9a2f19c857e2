-- active_model --
-- Read the model that a tenant searches, the chosen or the active one, and whether its new documents also get vectors of a
-- followed model. A model of caller vectors is never followed, and the active one not by a tenant that chose another.
SELECT m.model, m.dimensions, m.table_name, EXISTS (
    SELECT FROM recall.reindexes AS r
    JOIN recall.embedding_models AS other ON other.model = r.model
    WHERE r.cancel_time IS NULL AND r.model <> m.model AND other.provider <> 'caller'
        AND (r.only_tenant_id = :tenant_id OR (r.only_tenant_id IS NULL AND NOT other.active))
) AS is_followed
FROM recall.embedding_models AS m
WHERE m.model = coalesce(
    (SELECT c.model FROM recall.model_choices AS c WHERE c.tenant_id = :tenant_id ORDER BY c.from_time DESC LIMIT 1),
    (SELECT a.model FROM recall.embedding_models AS a WHERE a.active)
);

-- insert_vector_origins --
-- Insert the origins of caller vectors.
INSERT INTO recall.vector_origins (tenant_id, item_id, model, provider)
VALUES (:tenant_id, :item_id, :model, :provider);

-- insert_vectors --
-- Insert the vectors of documents, one for each chunk of the text, with the codes of the chunk's tokens if there are any.
INSERT INTO recall.{table} (tenant_id, item_id, chunk, kind, embedding, rest, tokens)
VALUES (:tenant_id, :item_id, :chunk, :kind, :embedding, :rest, :tokens);
