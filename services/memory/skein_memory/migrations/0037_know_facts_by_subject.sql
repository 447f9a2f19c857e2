-- A fact's key names it among the facts about one subject, whatever its case. Free data is searched and hashed.

ALTER TABLE memory.fact_keys
    -- The person that the fact is about. Null in rows of facts about nobody, and in those that an older version writes.
    ADD COLUMN subject_id text,
    -- The key in lower case. Null in rows that an older version writes, whose keys count as they are.
    ADD COLUMN folded_key text;

-- Tenant by tenant, as row-level security binds the owner too. Of facts whose keys differ only in case the oldest keeps
-- the key. The others stay as they are, and are listed as a conflict.
DO $$
DECLARE
    tenant uuid;
    -- The database's own collation may know the case of ASCII letters alone; before Postgres 17 this one is missing.
    unicode text := coalesce((SELECT collname FROM pg_collation WHERE collname = 'pg_c_utf8'), 'default');
BEGIN
    PERFORM set_config('skein.operator', 'on', true);
    FOR tenant IN SELECT tenant_id FROM tenancy.tenants LOOP
        PERFORM set_config('skein.tenant_id', tenant::text, true);
        EXECUTE format(
            'UPDATE memory.fact_keys AS held
             SET subject_id = known.subject_id, folded_key = lower(held.key COLLATE pg_catalog.%I)
             FROM memory.memories AS known
             WHERE held.tenant_id = $1 AND known.tenant_id = $1 AND known.memory_id = held.memory_id', unicode)
        USING tenant;
        DELETE FROM memory.fact_keys AS later
        USING (SELECT memory_id,
                      row_number() OVER (PARTITION BY coalesce(subject_id, ''), folded_key ORDER BY memory_id) AS place
               FROM memory.fact_keys WHERE tenant_id = tenant) AS ranked
        WHERE later.tenant_id = tenant AND later.memory_id = ranked.memory_id AND ranked.place > 1;
    END LOOP;
    PERFORM set_config('skein.tenant_id', '', true), set_config('skein.operator', '', true);
END $$;

-- An older version names this constraint where it takes a key, so it keeps its name. Under row-level security an index
-- serves CASE, and not coalesce, which Postgres does not count as leakproof.
ALTER TABLE memory.fact_keys DROP CONSTRAINT fact_keys_pkey;
ALTER TABLE memory.fact_keys
    ADD CONSTRAINT fact_keys_pkey EXCLUDE USING btree
        (tenant_id WITH =,
         (CASE WHEN subject_id IS NULL THEN '' ELSE subject_id END) WITH =,
         (CASE WHEN folded_key IS NULL THEN key ELSE folded_key END) WITH =),
    ADD CONSTRAINT fact_keys_memory_key PRIMARY KEY (tenant_id, memory_id);
DROP INDEX memory.fact_keys_memory;

-- The revision that words and content_hash were made from, by the rules of the version that knows this column. Rows of
-- older versions fall behind; the worker's round brings up those with data. The others are as they were.
ALTER TABLE memory.memories ADD COLUMN text_revision bigint;
CREATE INDEX memories_outdated ON memory.memories (tenant_id, memory_id)
    WHERE data IS NOT NULL AND text_revision IS DISTINCT FROM revision;

-- Null in rows of older versions, whose hash is of the type and the content.
ALTER TABLE memory.versions ADD COLUMN content_hash bytea;
