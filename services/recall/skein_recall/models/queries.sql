-- list_models --
-- List the registered models by name, each with the tenants in which it is followed; the nil tenant stands for all.
SELECT m.model, m.provider, m.dimensions, m.table_name, m.active, m.create_time, m.is_offered, m.offer_time, m.endpoint, m.remote_model,
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

-- distribute_vectors --
-- Distribute a model's table of vectors by tenant, unless it is.
SELECT recall.distribute_vectors(:model);

-- set_similarity_scale --
-- Store the measured scale of a model's cosines, unless it has one.
UPDATE recall.embedding_models
SET similarity_floor = :floor, similarity_ceiling = :ceiling
WHERE model = :model AND similarity_floor IS NULL;

-- lock_models --
-- Lock the registered models, so that one transaction at a time changes which is active.
SELECT m.model
FROM recall.embedding_models AS m
ORDER BY m.model
FOR NO KEY UPDATE;

-- deactivate_models --
-- Deactivate the active model, unless it is the one that shall be active.
UPDATE recall.embedding_models
SET active = false, leave_time = :at
WHERE active AND model <> :model;

-- activate_model --
-- Make a model the active one, after the former is not.
UPDATE recall.embedding_models
SET active = true
WHERE model = :model AND NOT active;

-- insert_activation --
-- Record when a model became the active one.
INSERT INTO recall.model_activations (model, from_time)
VALUES (:model, :at)
ON CONFLICT ON CONSTRAINT model_activations_pkey DO NOTHING;

-- read_activation --
-- Read which model was active at a time; before the first activation it is the first model.
SELECT a.model, a.from_time
FROM recall.model_activations AS a
WHERE a.from_time <= greatest(:at::timestamptz, (SELECT min(o.from_time) FROM recall.model_activations AS o))
ORDER BY a.from_time DESC
LIMIT 1;

-- offer_model --
-- Let tenants choose a model, or end that; the time of the first offer stays.
UPDATE recall.embedding_models
SET is_offered = :is_offered, offer_time = CASE WHEN :is_offered THEN coalesce(offer_time, :at) ELSE offer_time END
WHERE model = :model;

-- read_choice --
-- Read which model a tenant searches since when, and which one before: a null model is the one that is active in the cluster.
SELECT c.from_time, c.model, coalesce(
    (SELECT o.model FROM recall.model_choices AS o
     WHERE o.tenant_id = :tenant_id AND o.from_time < c.from_time ORDER BY o.from_time DESC LIMIT 1),
    (SELECT m.model FROM recall.embedding_models AS m WHERE m.active)
) AS former_model
FROM recall.model_choices AS c
WHERE c.tenant_id = :tenant_id
ORDER BY c.from_time DESC
LIMIT 1;

-- read_choice_as_of --
-- Read which model a tenant had chosen at a time.
SELECT c.model, c.from_time
FROM recall.model_choices AS c
WHERE c.tenant_id = :tenant_id AND c.from_time <= :at
ORDER BY c.from_time DESC
LIMIT 1;

-- read_policy_model --
-- Read the model that the policy of a tenant names; null for the one that is active in the cluster.
SELECT p.embedding_model
FROM tenancy.policies AS p
WHERE p.tenant_id = :tenant_id;

-- insert_choice --
-- Record that a tenant searches another model.
INSERT INTO recall.model_choices (tenant_id, from_time, model)
VALUES (:tenant_id, :at, :model)
ON CONFLICT ON CONSTRAINT model_choices_pkey DO NOTHING;

-- list_model_tenants --
-- List some tenants that chose a model.
SELECT recall.list_model_tenants(:model, :count) AS tenant_id;

-- set_model_left_time --
-- Record when a model was followed last.
UPDATE recall.embedding_models
SET leave_time = :at
WHERE model = :model;

-- delete_model --
-- Delete a model with its vectors, unless it is in use or was after a time; return the outcome.
SELECT recall.delete_model(:model, :left_before);
