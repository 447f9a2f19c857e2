-- Models that change while they are searched: endpoints that make vectors, a second model that is filled beside the one
-- in force, the switch from one to the other, and the end of a model.
--
-- A model is followed while a reindex of it stands that was not cancelled: whatever is written gets its vectors too. So
-- the model that was in force before can be taken back at any moment.

ALTER TABLE recall.embedding_models
    DROP CONSTRAINT embedding_models_provider_known,
    ADD CONSTRAINT embedding_models_provider_known CHECK (provider IN ('embedded', 'caller', 'openai')),
    -- Of an HTTP endpoint: where it is, what it calls the model, how many texts it takes at once, how long it may take,
    -- and the characters that the model reads of one text. Its key is never kept here.
    ADD COLUMN endpoint text,
    ADD COLUMN remote_model text,
    ADD COLUMN batch_size integer,
    ADD COLUMN timeout_seconds double precision,
    ADD COLUMN window_characters integer,
    -- When it was last in force or followed: for some seconds more there may be processes that believe it still is.
    ADD COLUMN leave_time timestamptz;

CREATE TABLE recall.reindexes (
    reindex_id uuid CONSTRAINT reindexes_pkey PRIMARY KEY,
    model text NOT NULL
        CONSTRAINT reindexes_model_fkey REFERENCES recall.embedding_models (model) ON DELETE CASCADE,
    -- The one tenant that it is about; null for all, those to come included.
    only_tenant_id uuid
        CONSTRAINT reindexes_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    texts_per_second double precision NOT NULL,
    -- By then every process follows the model: a look at all documents that begins later overlooks none.
    settle_time timestamptz NOT NULL,
    -- The model had everything when it was put in force or out of it, and did not miss anything since: it may be taken
    -- (back) before the look is over.
    is_complete boolean NOT NULL,
    -- When the next texts may go to the model, over all processes.
    next_time timestamptz NOT NULL,
    create_time timestamptz NOT NULL,
    created_by text NOT NULL,
    cancel_time timestamptz
);
-- One that stands for each model and tenant, and one for all tenants.
CREATE UNIQUE INDEX reindexes_running_key
    ON recall.reindexes (model, coalesce(only_tenant_id, '00000000-0000-0000-0000-000000000000'::uuid))
    WHERE cancel_time IS NULL;

-- How far a reindex is in one tenant. It looks at every document, in order of the ids, until one look finds nothing.
CREATE TABLE recall.reindex_progress (
    tenant_id uuid NOT NULL
        CONSTRAINT reindex_progress_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    reindex_id uuid NOT NULL
        CONSTRAINT reindex_progress_reindex_fkey REFERENCES recall.reindexes (reindex_id) ON DELETE CASCADE,
    -- When the look began, and the last document that it saw.
    scan_time timestamptz NOT NULL,
    after_id uuid NOT NULL,
    -- Documents of the tenant when the look began, as far as they were counted; those seen; those that got their vectors;
    -- those that could get none.
    documents bigint NOT NULL,
    seen bigint NOT NULL,
    scan_embedded bigint NOT NULL,
    missing bigint NOT NULL,
    is_finished boolean NOT NULL,
    -- Something was written meanwhile that did not get its vectors: there must be another look.
    is_stale boolean NOT NULL,
    -- Items that got vectors in all looks together.
    embedded bigint NOT NULL,
    CONSTRAINT reindex_progress_pkey PRIMARY KEY (tenant_id, reindex_id)
);
-- A tenant sees how far it is, the operator's transactions see how far all are.
ALTER TABLE recall.reindex_progress ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.reindex_progress FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.reindex_progress
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid
           OR current_setting('skein.operator', true) = 'on');

GRANT SELECT, INSERT, UPDATE ON recall.reindexes TO skein_recall;
GRANT SELECT, INSERT, UPDATE, DELETE ON recall.reindex_progress TO skein_recall;
-- Whoever stores a vector that was given with an item must know whether another model follows.
GRANT SELECT ON recall.reindexes TO skein_memory, skein_session;
-- A reindex goes through the tenants that there are: which, and nothing else of them.
GRANT SELECT (tenant_id, is_active) ON tenancy.tenants TO skein_recall;
-- A vector may be brought for an item by the id that another system gave it.
GRANT SELECT ON memory.external_ids, session.message_external_ids TO skein_recall;

-- A new table that refers to the documents is waited for by all who write those: briefly, and then again.
ALTER FUNCTION recall.register_model(text, text, integer, timestamptz) SET lock_timeout = '200ms';

-- Register a model whose vectors an endpoint makes; return the name of its table.
CREATE FUNCTION recall.register_endpoint(
    named text, dimensions integer, at timestamptz, endpoint text, remote_model text, batch_size integer,
    timeout_seconds double precision, window_characters integer
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = ''
SET lock_timeout = '200ms'
AS $$
DECLARE
    made text := recall.register_model(named, 'openai', dimensions, at);
BEGIN
    UPDATE recall.embedding_models AS m
    SET endpoint = register_endpoint.endpoint, remote_model = register_endpoint.remote_model,
        batch_size = register_endpoint.batch_size, timeout_seconds = register_endpoint.timeout_seconds,
        window_characters = register_endpoint.window_characters
    WHERE m.model = named;
    RETURN made;
END
$$;

-- Put one model in force, and so the one that was out of it. Readers see the one or the other, never none.
CREATE FUNCTION recall.set_active_model(chosen text, at timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = ''
SET lock_timeout = '5s'
AS $$
BEGIN
    LOCK TABLE recall.embedding_models IN SHARE ROW EXCLUSIVE MODE;
    UPDATE recall.embedding_models AS m SET active = false, leave_time = at WHERE m.active AND m.model <> chosen;
    UPDATE recall.embedding_models AS m SET active = true WHERE m.model = chosen AND NOT m.active;
END
$$;

-- Remember when a model was followed last.
CREATE FUNCTION recall.set_model_leave_time(named text, at timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = ''
SET lock_timeout = '5s'
AS $$
BEGIN
    UPDATE recall.embedding_models AS m SET leave_time = at WHERE m.model = named;
END
$$;

-- Forget a model with its vectors, unless it is in force, followed, or was so after a time; say which: 'dropped', 'active',
-- 'in use' or 'unknown'. Its table goes together with a reference to the documents, so nobody can read those for that
-- moment: whoever reads them just now is waited for so briefly that nobody notices.
CREATE FUNCTION recall.drop_model(named text, left_before timestamptz) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = ''
SET lock_timeout = '100ms'
AS $$
DECLARE
    held record;
BEGIN
    LOCK TABLE recall.embedding_models, recall.reindexes IN SHARE ROW EXCLUSIVE MODE;
    SELECT m.table_name, m.active, m.leave_time INTO held FROM recall.embedding_models AS m WHERE m.model = named;
    IF held IS NULL THEN
        RETURN 'unknown';
    ELSIF held.active THEN
        RETURN 'active';
    ELSIF held.leave_time > left_before
        OR EXISTS (SELECT FROM recall.reindexes AS r WHERE r.model = named AND r.cancel_time IS NULL) THEN
        RETURN 'in use';
    END IF;
    EXECUTE format('DROP TABLE recall.%I', held.table_name);
    DELETE FROM recall.embedding_models AS m WHERE m.model = named;
    RETURN 'dropped';
END
$$;

REVOKE ALL ON FUNCTION recall.register_endpoint(text, integer, timestamptz, text, text, integer, double precision, integer),
    recall.set_active_model(text, timestamptz), recall.set_model_leave_time(text, timestamptz),
    recall.drop_model(text, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    recall.register_endpoint(text, integer, timestamptz, text, text, integer, double precision, integer),
    recall.set_active_model(text, timestamptz), recall.set_model_leave_time(text, timestamptz),
    recall.drop_model(text, timestamptz) TO skein_recall;
