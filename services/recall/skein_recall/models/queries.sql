-- list_models --
-- List the registered models by name, each with the tenants in which it is followed; the nil tenant stands for all.
SELECT m.model, m.provider, m.dimensions, m.table_name, m.active, m.create_time, m.endpoint, m.remote_model,
       m.batch_size, m.timeout_seconds, m.window_characters, m.query_prefix, m.passage_prefix, m.similarity_floor,
       m.similarity_ceiling,
       ARRAY(
           SELECT coalesce(r.only_tenant_id, '00000000-0000-0000-0000-000000000000'::uuid)
           FROM recall.reindexes AS r
           WHERE r.model = m.model AND r.cancel_time IS NULL
       ) AS followed
FROM recall.embedding_models AS m
ORDER BY m.model;

-- register_model --
-- Register a model and create its table of vectors; return the table's name.
SELECT recall.register_model(
    :model, :provider, :dimensions, :create_time, :query_prefix, :passage_prefix, :similarity_floor,
    :similarity_ceiling
);

-- register_endpoint --
-- Register a model whose vectors an endpoint computes; return the name of its table.
SELECT recall.register_endpoint(
    :model, :dimensions, :create_time, :query_prefix, :passage_prefix, :similarity_floor, :similarity_ceiling,
    :endpoint, :remote_model, :batch_size, :timeout_seconds, :window_characters
);

-- set_similarity_scale --
-- Store the measured scale of a model's cosines, unless it has one.
SELECT recall.set_similarity_scale(:model, :floor, :ceiling);

-- activate_model --
-- Make a model the active one.
SELECT recall.activate_model(:model, :at);

-- set_model_left_time --
-- Record when a model was followed last.
SELECT recall.set_model_leave_time(:model, :at);

-- delete_model --
-- Delete a model with its vectors, unless it is in use or was after a time; return the outcome.
SELECT recall.delete_model(:model, :left_before);
