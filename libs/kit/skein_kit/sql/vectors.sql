-- space_in_force --
-- Read the model whose vectors are searched, and whether another one gets vectors of what is written as well.
SELECT m.model, m.dimensions, m.table_name, EXISTS (
    SELECT FROM recall.reindexes AS r WHERE r.cancel_time IS NULL AND r.model <> m.model
) AS followed
FROM recall.embedding_models AS m
WHERE m.active;

-- insert_vectors --
-- Store the vectors of items, one for each chunk of the text.
INSERT INTO recall.{table} (tenant_id, item_id, chunk, kind, embedding, rest)
VALUES (:tenant_id, :item_id, :chunk, :kind, :embedding, :rest);
