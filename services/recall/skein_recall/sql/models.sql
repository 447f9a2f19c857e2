-- active_model --
-- Read the model that is searched.
SELECT model, provider, dimensions, table_name, active, create_time
FROM recall.embedding_models
WHERE active;

-- list_models --
-- List the registered models by name.
SELECT model, provider, dimensions, table_name, active, create_time
FROM recall.embedding_models
ORDER BY model;

-- register_model --
-- Register a model and make its table of vectors; return the table's name.
SELECT recall.register_model(:model, :provider, :dimensions, :create_time);
