-- The search index: documents, postings, and one table of vectors for each embedding model.
--
-- memory and session write a document and its postings in the transaction that writes the item, so an item is found by
-- its words the moment it is committed. Only items that may be recalled have a document; taking the document away takes
-- postings and vectors with it.

CREATE SCHEMA recall;
GRANT USAGE ON SCHEMA recall TO skein_recall, skein_memory, skein_session;

CREATE TABLE recall.documents (
    tenant_id uuid NOT NULL
        CONSTRAINT documents_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    -- memory_id or message_id: a UUIDv7, so a range of time is a range of ids.
    item_id uuid NOT NULL,
    kind text NOT NULL CONSTRAINT documents_kind_known CHECK (kind IN ('memory', 'message')),
    -- What filters ask for. Messages have no type, scope, source, key and importance.
    type text,
    scope text,
    source text,
    key text,
    importance double precision,
    agent_id text,
    subject_id text,
    session_id text,
    expire_time timestamptz,
    -- Terms of the text, counted with repetition: BM25's document length.
    length integer NOT NULL,
    -- The item's revision that the postings were made from.
    revision bigint NOT NULL,
    -- The active model's vectors are still to be made.
    pending boolean NOT NULL DEFAULT true,
    CONSTRAINT documents_pkey PRIMARY KEY (tenant_id, item_id)
);
CREATE INDEX documents_length ON recall.documents (tenant_id, kind) INCLUDE (length);
CREATE INDEX documents_type ON recall.documents (tenant_id, type, item_id) WHERE type IS NOT NULL;
CREATE INDEX documents_session ON recall.documents (tenant_id, session_id, item_id) WHERE session_id IS NOT NULL;
CREATE INDEX documents_agent ON recall.documents (tenant_id, agent_id, item_id) WHERE agent_id IS NOT NULL;
CREATE INDEX documents_subject ON recall.documents (tenant_id, subject_id, item_id) WHERE subject_id IS NOT NULL;
CREATE INDEX documents_source ON recall.documents (tenant_id, source, item_id) WHERE source IS NOT NULL;
-- What has expired is left out of every search before ranking.
CREATE INDEX documents_expire_time ON recall.documents (tenant_id, expire_time) INCLUDE (item_id)
    WHERE expire_time IS NOT NULL;
CREATE INDEX documents_pending ON recall.documents (tenant_id, item_id) WHERE pending;

-- One row for each term of each item. The covering key reads a term's list as one contiguous run, and every operator on
-- it is leakproof, so row-level security costs nothing.
CREATE TABLE recall.postings (
    tenant_id uuid NOT NULL,
    term text NOT NULL,
    kind text NOT NULL,
    item_id uuid NOT NULL,
    frequency integer NOT NULL,
    length integer NOT NULL,
    CONSTRAINT postings_pkey PRIMARY KEY (tenant_id, term, kind, item_id) INCLUDE (frequency, length),
    CONSTRAINT postings_document_fkey FOREIGN KEY (tenant_id, item_id)
        REFERENCES recall.documents (tenant_id, item_id) ON DELETE CASCADE
);
CREATE INDEX postings_item ON recall.postings (tenant_id, item_id);

-- Index-only scans need the visibility map; keep it fresh on tables that mostly grow.
ALTER TABLE recall.documents SET (autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_insert_threshold = 500);
ALTER TABLE recall.postings SET (autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_insert_threshold = 5000);

-- The registered models: small and global.
CREATE TABLE recall.embedding_models (
    model text CONSTRAINT embedding_models_pkey PRIMARY KEY,
    provider text NOT NULL CONSTRAINT embedding_models_provider_known CHECK (provider IN ('embedded', 'caller')),
    dimensions integer NOT NULL CONSTRAINT embedding_models_dimensions_range CHECK (dimensions BETWEEN 1 AND 4000),
    -- The model's table of vectors, without its schema.
    table_name text NOT NULL CONSTRAINT embedding_models_table_key UNIQUE,
    active boolean NOT NULL DEFAULT false,
    create_time timestamptz NOT NULL
);
-- One model is active at a time.
CREATE UNIQUE INDEX embedding_models_active_key ON recall.embedding_models ((true)) WHERE active;

-- Answers to the operator's requests that carry a request_id, so that a repeated one has one effect.
CREATE TABLE recall.requests (
    tenant_id uuid NOT NULL,
    principal text NOT NULL,
    method text NOT NULL,
    request_id text NOT NULL,
    fingerprint bytea NOT NULL,
    response bytea NOT NULL,
    create_time timestamptz NOT NULL,
    CONSTRAINT requests_pkey PRIMARY KEY (tenant_id, principal, method, request_id)
);
CREATE INDEX requests_create_time ON recall.requests (tenant_id, create_time);
-- No reference to tenants: the operator's own requests are kept under the nil tenant.
ALTER TABLE recall.requests ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.requests FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.requests
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

ALTER TABLE recall.documents ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.documents FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.documents
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE recall.postings ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.postings FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.postings
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

GRANT SELECT, INSERT, UPDATE, DELETE ON recall.documents, recall.postings, recall.requests TO skein_recall;
GRANT SELECT ON recall.embedding_models TO skein_recall;

-- The crossings between schemas, all of them. Items are written with their index rows ...
GRANT SELECT, INSERT, DELETE ON recall.documents, recall.postings TO skein_memory, skein_session;
-- (a change that leaves a memory's text as it is keeps its vectors)
GRANT UPDATE (type, scope, source, importance, agent_id, subject_id, session_id, expire_time)
    ON recall.documents TO skein_memory;
-- ... and hybrid search reads the items that it found.
GRANT USAGE ON SCHEMA memory, session TO skein_recall;
GRANT SELECT ON memory.memories, memory.tags, session.messages TO skein_recall;

-- Register a model and make its table of vectors: hash-partitioned by item, with an index that covers the vector where a
-- B-tree tuple can hold it, so that an exact search reads one contiguous run.
CREATE FUNCTION recall.register_model(model text, provider text, dimensions integer, at timestamptz) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = ''
SET lock_timeout = '5s'
AS $$
DECLARE
    table_name text := 'embeddings_' || regexp_replace(lower(model), '[^a-z0-9]+', '_', 'g');
    partitions constant integer := 4;
BEGIN
    INSERT INTO recall.embedding_models (model, provider, dimensions, table_name, create_time)
    VALUES (model, provider, dimensions, table_name, at);
    EXECUTE format($sql$
        CREATE TABLE recall.%1$I (
            tenant_id uuid NOT NULL,
            item_id uuid NOT NULL,
            chunk smallint NOT NULL,
            kind text NOT NULL,
            embedding public.halfvec(%2$s) NOT NULL,
            CONSTRAINT %3$I PRIMARY KEY (tenant_id, item_id, chunk),
            CONSTRAINT %4$I FOREIGN KEY (tenant_id, item_id)
                REFERENCES recall.documents (tenant_id, item_id) ON DELETE CASCADE
        ) PARTITION BY HASH (item_id)
        $sql$, table_name, dimensions, table_name || '_pkey', table_name || '_document_fkey');
    EXECUTE format('ALTER TABLE recall.%I ENABLE ROW LEVEL SECURITY', table_name);
    EXECUTE format('ALTER TABLE recall.%I FORCE ROW LEVEL SECURITY', table_name);
    EXECUTE format($sql$
        CREATE POLICY tenant ON recall.%I
            USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid)
        $sql$, table_name);
    FOR remainder IN 0 .. partitions - 1 LOOP
        EXECUTE format('CREATE TABLE recall.%I PARTITION OF recall.%I FOR VALUES WITH (MODULUS %s, REMAINDER %s)',
                       table_name || '_p' || remainder, table_name, partitions, remainder);
        EXECUTE format('ALTER TABLE recall.%I ENABLE ROW LEVEL SECURITY', table_name || '_p' || remainder);
        EXECUTE format('ALTER TABLE recall.%I FORCE ROW LEVEL SECURITY', table_name || '_p' || remainder);
        -- Index-only scans need the visibility map; keep it fresh on tables that mostly grow.
        EXECUTE format('ALTER TABLE recall.%I SET (autovacuum_vacuum_insert_scale_factor = 0.02, '
                       'autovacuum_vacuum_insert_threshold = 500)', table_name || '_p' || remainder);
    END LOOP;
    IF dimensions <= 1280 THEN
        EXECUTE format('CREATE INDEX %I ON recall.%I (tenant_id, kind) INCLUDE (item_id, embedding)',
                       table_name || '_covering', table_name);
    ELSE
        EXECUTE format('CREATE INDEX %I ON recall.%I (tenant_id, kind)', table_name || '_tenant', table_name);
    END IF;
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON recall.%I TO skein_recall', table_name);
    RETURN table_name;
END
$$;
REVOKE ALL ON FUNCTION recall.register_model(text, text, integer, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION recall.register_model(text, text, integer, timestamptz) TO skein_recall;

SELECT recall.register_model('all-minilm-l6-v2', 'embedded', 384, now());
UPDATE recall.embedding_models SET active = true WHERE model = 'all-minilm-l6-v2';
