-- Properties that filters ask for, and tombstones of what was purged.

-- The scalar values in a memory's metadata and data by their names ("metadata.customer.id"), long ones as their digests.
-- A memory with too many has one row with an empty name. Lists are led by it; the memory itself decides what passes.
CREATE TABLE memory.properties (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    name text NOT NULL,
    value text NOT NULL,
    CONSTRAINT properties_pkey PRIMARY KEY (tenant_id, memory_id, name, value),
    CONSTRAINT properties_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX properties_value ON memory.properties (tenant_id, name, value, memory_id);

-- What a tenant's tombstones are salted with, so that they say nothing to whoever guesses at what was purged.
CREATE TABLE memory.tombstone_salts (
    tenant_id uuid NOT NULL
        CONSTRAINT tombstone_salts_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    salt bytea NOT NULL,
    CONSTRAINT tombstone_salts_pkey PRIMARY KEY (tenant_id)
);

-- Digests of the ids and contents of purged memories: an import of one of them is passed over.
CREATE TABLE memory.tombstones (
    tenant_id uuid NOT NULL
        CONSTRAINT tombstones_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    digest bytea NOT NULL,
    create_time timestamptz NOT NULL,
    CONSTRAINT tombstones_pkey PRIMARY KEY (tenant_id, digest)
);

ALTER TABLE memory.properties ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.properties FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.properties
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE memory.tombstone_salts ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.tombstone_salts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.tombstone_salts
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE memory.tombstones ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.tombstones FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.tombstones
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.properties, memory.tombstone_salts, memory.tombstones TO skein_memory;
GRANT SELECT ON memory.properties TO skein_recall;

-- Name what is there already: tenant by tenant, as row-level security binds the owner too. Rows end up as the service
-- writes them: numbers without needless zeros, long values as digests, one row where there are too many.
DO $$
DECLARE
    tenant uuid;
BEGIN
    PERFORM set_config('skein.operator', 'on', true);
    FOR tenant IN SELECT tenant_id FROM tenancy.tenants LOOP
        PERFORM set_config('skein.tenant_id', tenant::text, true);
        INSERT INTO memory.properties (tenant_id, memory_id, name, value)
        WITH RECURSIVE nodes (memory_id, name, value) AS (
            SELECT e.memory_id, root.name, root.value
            FROM memory.memories AS e
            CROSS JOIN LATERAL (VALUES ('metadata', e.metadata), ('data', e.data)) AS root (name, value)
            WHERE e.tenant_id = tenant AND root.value IS NOT NULL
            UNION ALL
            SELECT nodes.memory_id, below.name, below.value
            FROM nodes
            CROSS JOIN LATERAL (
                SELECT nodes.name || '.' || member.key AS name, member.value
                FROM jsonb_each(CASE jsonb_typeof(nodes.value) WHEN 'object' THEN nodes.value ELSE '{}' END) AS member
                UNION ALL
                SELECT nodes.name, item.value
                FROM jsonb_array_elements(CASE jsonb_typeof(nodes.value) WHEN 'array' THEN nodes.value ELSE '[]' END)
                    AS item (value)
            ) AS below
        ), texts AS (
            SELECT nodes.memory_id, nodes.name,
                   CASE jsonb_typeof(nodes.value)
                       WHEN 'number' THEN trim_scale((nodes.value #>> '{}')::numeric)::text
                       ELSE nodes.value #>> '{}'
                   END AS text
            FROM nodes
            WHERE jsonb_typeof(nodes.value) IN ('string', 'number', 'boolean')
        ), leaves AS (
            SELECT DISTINCT texts.memory_id, texts.name,
                   CASE WHEN char_length(texts.text) <= 255 THEN texts.text
                        ELSE 'sha256:' || encode(sha256(convert_to(texts.text, 'UTF8')), 'hex') END AS value
            FROM texts
        ), whole AS (
            SELECT leaves.memory_id, count(*) > 100 OR max(char_length(leaves.name)) > 255 AS too_many
            FROM leaves GROUP BY leaves.memory_id
        )
        SELECT tenant, leaves.memory_id, leaves.name, leaves.value
        FROM leaves JOIN whole USING (memory_id) WHERE NOT whole.too_many
        UNION ALL
        SELECT tenant, whole.memory_id, '', '' FROM whole WHERE whole.too_many;
    END LOOP;
    PERFORM set_config('skein.tenant_id', '', true), set_config('skein.operator', '', true);
END $$;

CREATE INDEX memories_source_agent ON memory.memories (tenant_id, source_agent, memory_id)
    WHERE source_agent IS NOT NULL;

-- Equal contents are listed in order like everything else. Last, as nobody reads memories from here to the end.
DROP INDEX memory.memories_content_hash;
CREATE INDEX memories_content_hash ON memory.memories (tenant_id, content_hash, memory_id);
