-- Statistics of terms that no writer waits for, what a text is like, vectors that come with their items, and tables for
-- models of more dimensions than an index tuple holds.
--
-- A new document is not yet counted; the worker counts it later. What is known of a tenant's words is therefore the sum
-- of what was counted (corpora), what was not yet (the partial index below), less what went away since (removals).

ALTER TABLE recall.documents
    -- Its text ends with a question; its text tells of a time.
    ADD COLUMN is_question boolean NOT NULL DEFAULT false,
    ADD COLUMN mentions_time boolean NOT NULL DEFAULT false,
    -- It is in corpora and frequencies.
    ADD COLUMN is_counted boolean NOT NULL DEFAULT false;
CREATE INDEX documents_uncounted ON recall.documents (tenant_id, kind, item_id) INCLUDE (length) WHERE NOT is_counted;
-- Counting all of a tenant's documents for each question is over.
DROP INDEX recall.documents_length;

-- How many documents of each kind were counted, and their length together.
CREATE TABLE recall.corpora (
    tenant_id uuid NOT NULL
        CONSTRAINT corpora_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    kind text NOT NULL,
    documents bigint NOT NULL,
    length bigint NOT NULL,
    -- Documents that went away since the frequencies were last counted from the postings.
    removed bigint NOT NULL DEFAULT 0,
    -- How far counting them anew is: the last term, in order; null when it is not under way.
    recounted_to text,
    CONSTRAINT corpora_pkey PRIMARY KEY (tenant_id, kind)
);

-- In how many documents a term occurs: of the terms whose lists are long, because short ones are counted as they are read.
-- So it keeps nobody's rare words.
CREATE TABLE recall.frequencies (
    tenant_id uuid NOT NULL
        CONSTRAINT frequencies_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    term text NOT NULL,
    kind text NOT NULL,
    documents bigint NOT NULL,
    CONSTRAINT frequencies_pkey PRIMARY KEY (tenant_id, term, kind) INCLUDE (documents)
);

-- Counted documents that went away and are still in corpora: rows that are only inserted, so nobody waits for anybody.
CREATE TABLE recall.removals (
    tenant_id uuid NOT NULL
        CONSTRAINT removals_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    removal_id uuid NOT NULL,
    kind text NOT NULL,
    documents bigint NOT NULL,
    length bigint NOT NULL,
    CONSTRAINT removals_pkey PRIMARY KEY (tenant_id, removal_id)
);

ALTER TABLE recall.corpora ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.corpora FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.corpora
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE recall.frequencies ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.frequencies FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.frequencies
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE recall.removals ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.removals FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.removals
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

GRANT SELECT, INSERT, UPDATE, DELETE ON recall.corpora, recall.frequencies, recall.removals TO skein_recall;
-- Who deletes a document says so.
GRANT INSERT ON recall.removals TO skein_memory, skein_session;

-- What a memory supersedes does not come back unless it is asked for.
GRANT SELECT ON memory.links TO skein_recall;

-- Whoever is given a vector with an item stores it with the item: which table it belongs to stands in the registry.
GRANT SELECT ON recall.embedding_models TO skein_memory, skein_session;

-- Register a model and make its table of vectors: hash-partitioned by item, with an index that covers the vector, so that
-- an exact search reads one contiguous run. A B-tree tuple holds 1,280 dimensions; those beyond stand in `rest`, and the
-- search compares the best by the first 1,280 once more by all.
CREATE OR REPLACE FUNCTION recall.register_model(model text, provider text, dimensions integer, at timestamptz) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = ''
SET lock_timeout = '5s'
AS $$
DECLARE
    table_name text := 'embeddings_' || regexp_replace(lower(model), '[^a-z0-9]+', '_', 'g');
    partitions constant integer := 4;
    covered constant integer := least(dimensions, 1280);
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
            rest public.halfvec(%5$s),
            CONSTRAINT %3$I PRIMARY KEY (tenant_id, item_id, chunk),
            CONSTRAINT %4$I FOREIGN KEY (tenant_id, item_id)
                REFERENCES recall.documents (tenant_id, item_id) ON DELETE CASCADE
        ) PARTITION BY HASH (item_id)
        $sql$, table_name, covered, table_name || '_pkey', table_name || '_document_fkey',
        greatest(dimensions - covered, 1));
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
        -- Vectors stay in the row: fetching them from a side table costs twice the time.
        EXECUTE format('ALTER TABLE recall.%I ALTER COLUMN embedding SET STORAGE PLAIN, '
                       'ALTER COLUMN rest SET STORAGE PLAIN', table_name || '_p' || remainder);
        -- Index-only scans need the visibility map; keep it fresh on tables that mostly grow.
        EXECUTE format('ALTER TABLE recall.%I SET (autovacuum_vacuum_insert_scale_factor = 0.02, '
                       'autovacuum_vacuum_insert_threshold = 500)', table_name || '_p' || remainder);
    END LOOP;
    EXECUTE format('CREATE INDEX %I ON recall.%I (tenant_id, kind) INCLUDE (item_id, embedding)',
                   table_name || '_covering', table_name);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON recall.%I TO skein_recall', table_name);
    -- A vector given with an item is stored with the item.
    EXECUTE format('GRANT INSERT ON recall.%I TO skein_memory, skein_session', table_name);
    RETURN table_name;
END
$$;

-- The tables that were made before.
DO $$
DECLARE
    made record;
    remainder integer;
BEGIN
    FOR made IN SELECT m.table_name, m.dimensions FROM recall.embedding_models AS m LOOP
        EXECUTE format('ALTER TABLE recall.%I ADD COLUMN rest public.halfvec(%s)', made.table_name,
                       greatest(made.dimensions - 1280, 1));
        IF made.dimensions > 1280 THEN
            EXECUTE format('DROP INDEX recall.%I', made.table_name || '_tenant');
            -- A change of type reads every row, whoever's it is.
            EXECUTE format('ALTER TABLE recall.%I ALTER COLUMN rest TYPE public.halfvec(%s) '
                           'USING public.subvector(embedding, 1281, %s)::public.halfvec', made.table_name,
                           made.dimensions - 1280, made.dimensions - 1280);
            EXECUTE format('ALTER TABLE recall.%I ALTER COLUMN embedding TYPE public.halfvec(1280) '
                           'USING public.subvector(embedding, 1, 1280)::public.halfvec', made.table_name);
            EXECUTE format('CREATE INDEX %I ON recall.%I (tenant_id, kind) INCLUDE (item_id, embedding)',
                           made.table_name || '_covering', made.table_name);
        END IF;
        EXECUTE format('GRANT INSERT ON recall.%I TO skein_memory, skein_session', made.table_name);
        FOR remainder IN 0 .. 3 LOOP
            EXECUTE format('ALTER TABLE recall.%I ALTER COLUMN embedding SET STORAGE PLAIN, '
                           'ALTER COLUMN rest SET STORAGE PLAIN', made.table_name || '_p' || remainder);
        END LOOP;
    END LOOP;
END
$$;
