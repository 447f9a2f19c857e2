-- Erasing a person reaches the access log: its rows lose the person, and the key of its hashes is destroyed.

-- The secret that a tenant's hashes of searches are keyed with. Forgetting a person deletes it, and with it every way to
-- hold a guess against the hashes that are there; the next search makes another.
CREATE TABLE memory.access_keys (
    tenant_id uuid NOT NULL
        CONSTRAINT access_keys_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    secret bytea NOT NULL CONSTRAINT access_keys_secret_length CHECK (octet_length(secret) = 32),
    CONSTRAINT access_keys_pkey PRIMARY KEY (tenant_id)
);
ALTER TABLE memory.access_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.access_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.access_keys
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, DELETE ON memory.access_keys TO skein_memory;
GRANT SELECT, INSERT ON memory.access_keys TO skein_recall, skein_session;

-- People and sessions that were erased a moment ago, by digests alone. Calls that were at work then are recorded seconds
-- later, so the access log is looked through once more before the row goes, and the secret of its digest with it. Recall
-- drops what it holds in memory of these tenants.
CREATE TABLE memory.erasures (
    tenant_id uuid NOT NULL
        CONSTRAINT erasures_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    erasure_id uuid NOT NULL,
    secret bytea NOT NULL CONSTRAINT erasures_secret_length CHECK (octet_length(secret) = 32),
    -- SHA-256 of the secret and "subject:" or "session:" with the name.
    digest bytea NOT NULL CONSTRAINT erasures_digest_length CHECK (octet_length(digest) = 32),
    erase_time timestamptz NOT NULL,
    CONSTRAINT erasures_pkey PRIMARY KEY (tenant_id, erasure_id)
);
ALTER TABLE memory.erasures ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.erasures FORCE ROW LEVEL SECURITY;
-- Recall asks for the tenants of all of them.
CREATE POLICY tenant ON memory.erasures
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid
           OR current_setting('skein.operator', true) = 'on');
GRANT SELECT, INSERT, DELETE ON memory.erasures TO skein_memory;
GRANT SELECT, INSERT ON memory.erasures TO skein_session;
GRANT SELECT (tenant_id, erase_time) ON memory.erasures TO skein_recall;

-- The name by which recorded searches speak of a person.
GRANT SELECT (tenant_id, subject_id, display_name) ON tenancy.subjects TO skein_memory;

CREATE INDEX access_log_subject ON memory.access_log (tenant_id, subject_id, access_id) WHERE subject_id IS NOT NULL;
-- Searches whose words were kept, because the tenant wants them (audit_query_text).
CREATE INDEX access_log_words ON memory.access_log (tenant_id, request_id)
    WHERE request_data @? '$.**.query ? (@.type() == "string")';

-- The planner's statistics hold values of the rows that they were made from, until they are made anew. Make those of one
-- table anew unless they are from after a time; say whether they were. One call to a transaction: whoever reads the log of
-- changes waits for it. Postgres 18 can forget the statistics of a table that is empty now, and leave partitions out.
CREATE FUNCTION memory.refresh_statistics(schema_name text, table_name text, before timestamptz) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = ''
SET lock_timeout = '5s'
AS $$
DECLARE
    found record;
    is_new boolean := to_regprocedure('pg_catalog.pg_clear_attribute_stats(text,text,text,boolean)') IS NOT NULL;
BEGIN
    SELECT n.nspname, c.relname, c.oid, c.relkind = 'p' AS inherited INTO found
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    LEFT JOIN pg_catalog.pg_stat_all_tables AS s ON s.relid = c.oid
    WHERE n.nspname IN ('memory', 'session', 'recall', 'tenancy') AND c.relkind IN ('r', 'p') AND c.reltuples >= 0
        AND n.nspname = schema_name AND c.relname = table_name
        AND coalesce(greatest(s.last_analyze, s.last_autoanalyze), '-infinity') < before;
    IF found.oid IS NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('ANALYZE %s %I.%I', CASE WHEN is_new AND found.inherited THEN 'ONLY' ELSE '' END,
                   found.nspname, found.relname);
    -- ANALYZE leaves those of an empty table as they are.
    IF is_new AND (SELECT c.reltuples FROM pg_catalog.pg_class AS c WHERE c.oid = found.oid) = 0 THEN
        PERFORM pg_catalog.pg_clear_attribute_stats(
            found.nspname::text, c.relname::text, a.attname::text, found.inherited)
        FROM pg_catalog.pg_attribute AS a
        JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
        WHERE a.attnum > 0 AND NOT a.attisdropped AND (a.attrelid = found.oid OR a.attrelid IN (
            SELECT i.indexrelid FROM pg_catalog.pg_index AS i
            WHERE i.indrelid = found.oid AND i.indexprs IS NOT NULL AND NOT found.inherited));
    END IF;
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION memory.refresh_statistics(text, text, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory.refresh_statistics(text, text, timestamptz) TO skein_memory;
