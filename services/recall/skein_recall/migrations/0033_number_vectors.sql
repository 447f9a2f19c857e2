-- A process that answers many searches of a tenant holds its vectors in memory. Which vectors came since is told by the
-- transaction that wrote each: those below a snapshot's horizon were all there when the snapshot was taken.

-- Register a model and make its table of vectors: as before, and each vector with its transaction.
CREATE OR REPLACE FUNCTION recall.register_model(model text, provider text, dimensions integer, at timestamptz) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = ''
SET lock_timeout = '200ms'
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
            transaction bigint DEFAULT (pg_current_xact_id()::text::bigint),
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
    EXECUTE format('CREATE INDEX %I ON recall.%I (tenant_id, transaction) WHERE transaction IS NOT NULL',
                   table_name || '_transaction', table_name);
    -- A vector is written once: what has another number is another vector.
    EXECUTE format('GRANT SELECT, INSERT, DELETE ON recall.%I TO skein_recall', table_name);
    -- A vector given with an item is stored with the item.
    EXECUTE format('GRANT INSERT ON recall.%I TO skein_memory, skein_session', table_name);
    RETURN table_name;
END
$$;

-- The tables that were made before. What is in them is older than anything that is held, and needs no number. The index
-- is empty, but every row is looked at for it: nobody searches by meaning for about a second for each million vectors.
DO $$
DECLARE
    made record;
BEGIN
    FOR made IN SELECT m.table_name FROM recall.embedding_models AS m LOOP
        EXECUTE format('ALTER TABLE recall.%I ADD COLUMN transaction bigint', made.table_name);
        EXECUTE format('ALTER TABLE recall.%I ALTER COLUMN transaction '
                       'SET DEFAULT (pg_current_xact_id()::text::bigint)', made.table_name);
        EXECUTE format('CREATE INDEX %I ON recall.%I (tenant_id, transaction) WHERE transaction IS NOT NULL',
                       made.table_name || '_transaction', made.table_name);
        EXECUTE format('REVOKE UPDATE ON recall.%I FROM skein_recall', made.table_name);
    END LOOP;
END
$$;
