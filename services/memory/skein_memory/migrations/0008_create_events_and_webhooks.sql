-- The event log, former revisions, webhooks and their deliveries.

-- The event log, ordered by (transaction, change_id). A transaction gets its number at its first write. So a reader
-- that stops below the oldest open transaction misses nothing before its position, and no writer waits for a lock.
CREATE TABLE memory.changes (
    tenant_id uuid NOT NULL
        CONSTRAINT changes_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    change_id uuid NOT NULL,
    transaction bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint + skein.transaction_base()),
    event_type text NOT NULL,
    entity_type text NOT NULL,
    entity_id text NOT NULL,
    -- A phrase of the service, never content.
    summary text NOT NULL,
    payload jsonb,
    principal text NOT NULL,
    create_time timestamptz NOT NULL,
    -- Of what changed.
    space_id uuid NOT NULL DEFAULT skein.space_id()
);
CREATE INDEX changes_position ON memory.changes (tenant_id, transaction, change_id);
CREATE INDEX changes_entity ON memory.changes (tenant_id, entity_id, transaction, change_id);

-- Made last: of indexes that cost the same in a table without statistics, the planner takes the youngest.
ALTER TABLE memory.changes ADD CONSTRAINT changes_pkey PRIMARY KEY (tenant_id, change_id);
ALTER TABLE memory.changes ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.changes FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.changes
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON memory.changes AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN space_id = '00000000-0000-0000-0000-000000000000'
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- Former revisions of links, aliases, source trust, conflicts and blocks. A purge of a memory removes the rows that
-- name it.
CREATE TABLE memory.revisions (
    tenant_id uuid NOT NULL
        CONSTRAINT revisions_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    kind text NOT NULL
        CONSTRAINT revisions_kind_known CHECK (kind IN ('link', 'alias', 'source_trust', 'conflict', 'block')),
    item_id text NOT NULL,
    revision bigint NOT NULL,
    memory_id uuid,
    other_memory_id uuid,
    state jsonb NOT NULL,
    from_time timestamptz NOT NULL,
    until_time timestamptz NOT NULL,
    changed_by text NOT NULL,
    -- The subject of a block; NULL for none.
    subject_id text,
    CONSTRAINT revisions_pkey PRIMARY KEY (tenant_id, kind, item_id, revision),
    CONSTRAINT revisions_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE,
    CONSTRAINT revisions_other_memory_fkey FOREIGN KEY (tenant_id, other_memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX revisions_memory ON memory.revisions (tenant_id, memory_id, kind) WHERE memory_id IS NOT NULL;
CREATE INDEX revisions_other_memory ON memory.revisions (tenant_id, other_memory_id, kind)
    WHERE other_memory_id IS NOT NULL;

-- Former revisions of links, in the order of lists of links.
CREATE INDEX revisions_link_from ON memory.revisions (tenant_id, memory_id, item_id) WHERE kind = 'link';
CREATE INDEX revisions_link_to ON memory.revisions (tenant_id, other_memory_id, item_id) WHERE kind = 'link';

-- Former revisions of blocks, in the order of lists of blocks.
CREATE INDEX revisions_block ON memory.revisions (tenant_id, item_id COLLATE "C", until_time) WHERE kind = 'block';

-- Former revisions of what no purge of memories takes along, to purge the oldest.
CREATE INDEX revisions_until ON memory.revisions (tenant_id, until_time) WHERE kind IN ('block', 'source_trust');
CREATE INDEX revisions_subject ON memory.revisions (tenant_id, subject_id, item_id) WHERE subject_id IS NOT NULL;
ALTER TABLE memory.revisions ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.revisions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.revisions
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.changes, memory.versions, memory.revisions, memory.access_counts
    TO skein_memory;
-- Messages that wait for approval have events too.
GRANT INSERT ON memory.changes TO skein_session;

-- The links of a time, from the rows and their revisions. The id of another item than a link may be no UUID.
CREATE VIEW as_of.links WITH (security_invoker = true) AS
SELECT known.tenant_id, known.link_id, known.from_memory_id, known.to_memory_id, known.relation, known.label,
       known.weight, known.metadata, known.create_time, known.created_by, known.revision, known.update_time,
       known.updated_by, known.author_keys, known.record_time
FROM (
    SELECT tenant_id, link_id, from_memory_id, to_memory_id, relation, label, weight, metadata, create_time, created_by,
           revision, update_time, updated_by, author_keys, greatest(record_time, update_time, create_time) AS record_time,
           'infinity'::timestamptz AS until_time, 'link' AS kind
    FROM memory.links
    UNION ALL
    SELECT tenant_id, CASE WHEN kind = 'link' THEN item_id::uuid END, memory_id, other_memory_id, state ->> 'relation',
           state ->> 'label', (state ->> 'weight')::double precision, nullif(state -> 'metadata', 'null'::jsonb),
           (state ->> 'create_time')::timestamptz, state ->> 'created_by', revision,
           coalesce((state ->> 'update_time')::timestamptz, from_time), state ->> 'updated_by',
           ARRAY(SELECT jsonb_array_elements_text(state -> 'author_keys')), from_time, until_time, kind
    FROM memory.revisions
) AS known
WHERE known.kind = 'link'
    AND known.record_time <= (SELECT skein.as_of_time()) AND known.record_time <> ALL ((SELECT skein.unseen_times())::timestamptz[])
    AND known.until_time > (SELECT skein.first_unseen_time())
    AND (known.until_time > (SELECT skein.as_of_time()) OR known.until_time = ANY ((SELECT skein.unseen_times())::timestamptz[]));

-- The blocks of a time, in the same way.
CREATE VIEW as_of.blocks WITH (security_invoker = true) AS
SELECT known.tenant_id, known.block_id, known.label, known.value, known.max_characters, known.description,
       known.read_only, known.is_template, known.template_name, known.subject_id, known.metadata, known.delete_time,
       known.revision, known.create_time, known.update_time, known.created_by, known.updated_by, known.writers, known.record_time
FROM (
    SELECT tenant_id, block_id, label, value, max_characters, description, read_only, is_template, template_name,
           subject_id, metadata, delete_time, revision, create_time, update_time, created_by, updated_by,
           writers, greatest(record_time, update_time) AS record_time, 'infinity'::timestamptz AS until_time,
           'block' AS kind
    FROM memory.blocks
    UNION ALL
    SELECT tenant_id, item_id COLLATE "C", state ->> 'label', state ->> 'value', (state ->> 'max_characters')::integer,
           state ->> 'description', (state ->> 'read_only')::boolean, (state ->> 'is_template')::boolean,
           state ->> 'template_name', state ->> 'subject_id', nullif(state -> 'metadata', 'null'::jsonb),
           (state ->> 'delete_time')::timestamptz, revision, (state ->> 'create_time')::timestamptz,
           coalesce((state ->> 'update_time')::timestamptz, from_time), state ->> 'created_by', state ->> 'updated_by',
           state -> 'writers', from_time, until_time, kind
    FROM memory.revisions
) AS known
WHERE known.kind = 'block'
    AND known.record_time <= (SELECT skein.as_of_time()) AND known.record_time <> ALL ((SELECT skein.unseen_times())::timestamptz[])
    AND known.until_time > (SELECT skein.first_unseen_time())
    AND (known.until_time > (SELECT skein.as_of_time()) OR known.until_time = ANY ((SELECT skein.unseen_times())::timestamptz[]));
GRANT SELECT ON as_of.blocks TO skein_memory;
GRANT SELECT ON memory.revisions TO skein_recall;
CREATE VIEW as_of.trusted_links WITH (security_invoker = true) AS
SELECT links.tenant_id, links.link_id, links.from_memory_id, links.to_memory_id, links.relation, links.weight
FROM as_of.links
WHERE NOT EXISTS (
    SELECT FROM as_of.source_trust AS rating
    WHERE rating.tenant_id = links.tenant_id AND rating.source_key = ANY (links.author_keys) AND rating.trust < 0.5);
GRANT SELECT ON as_of.links TO skein_memory, skein_recall;
GRANT SELECT ON as_of.trusted_links TO skein_recall;

CREATE TABLE memory.webhooks (
    tenant_id uuid NOT NULL
        CONSTRAINT webhooks_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    webhook_id uuid NOT NULL,
    display_name text NOT NULL,
    -- '*' stands for all.
    event_types text[] NOT NULL,
    condition text NOT NULL DEFAULT '',
    webhook_url text NOT NULL,
    is_active boolean NOT NULL DEFAULT true,
    -- The secret that signs deliveries, encrypted under a master key.
    master_key text NOT NULL,
    nonce bytea NOT NULL,
    ciphertext bytea NOT NULL,
    -- Position in the event log up to which deliveries are queued.
    transaction bigint NOT NULL,
    change_id uuid NOT NULL,
    -- Failed attempts since the last success.
    failures integer NOT NULL DEFAULT 0,
    last_delivery_time timestamptz,
    last_error text,
    disable_time timestamptz,
    revision bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    created_by text NOT NULL,
    updated_by text NOT NULL,
    grant_ids uuid[] NOT NULL DEFAULT '{}'
        CONSTRAINT webhooks_grant_ids_known CHECK (array_position(grant_ids, NULL) IS NULL),
    -- Host and port, without the default port of the scheme. The backoff applies to the destination, not to one
    -- webhook.
    destination text NOT NULL GENERATED ALWAYS AS (
            coalesce(lower(regexp_replace(substring(webhook_url FROM '^[A-Za-z]+://([^/?#]*)'), '[.]?(:443|:80)?$', '')), '')
        ) STORED,
    -- Consecutive attempts without a response of the destination; equal in all webhooks of one destination.
    destination_failures integer NOT NULL DEFAULT 0,
    -- No attempt before this time; then one delivery tests the destination.
    retry_time timestamptz
);
CREATE INDEX webhooks_active ON memory.webhooks (tenant_id, webhook_id) WHERE is_active;
CREATE INDEX webhooks_of_grants ON memory.webhooks (tenant_id) WHERE grant_ids <> '{}' AND is_active;
CREATE INDEX webhooks_destination ON memory.webhooks (tenant_id, destination);

-- Made last: of indexes that cost the same in a table without statistics, the planner takes the youngest.
ALTER TABLE memory.webhooks ADD CONSTRAINT webhooks_pkey PRIMARY KEY (tenant_id, webhook_id);
ALTER TABLE memory.webhooks ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.webhooks FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.webhooks
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- Pending and finished deliveries. They reference the change and never copy it.
CREATE TABLE memory.deliveries (
    tenant_id uuid NOT NULL,
    delivery_id uuid NOT NULL,
    webhook_id uuid NOT NULL,
    change_id uuid NOT NULL,
    state text NOT NULL CONSTRAINT deliveries_state_known CHECK (state IN ('pending', 'delivered', 'failed')),
    attempts integer NOT NULL DEFAULT 0,
    -- Time of the next attempt; during an attempt, when another worker may try.
    next_time timestamptz NOT NULL,
    last_error text,
    create_time timestamptz NOT NULL,
    finish_time timestamptz,
    CONSTRAINT deliveries_pkey PRIMARY KEY (tenant_id, delivery_id),
    CONSTRAINT deliveries_change_key UNIQUE (tenant_id, webhook_id, change_id),
    CONSTRAINT deliveries_webhook_fkey FOREIGN KEY (tenant_id, webhook_id)
        REFERENCES memory.webhooks (tenant_id, webhook_id) ON DELETE CASCADE,
    CONSTRAINT deliveries_change_fkey FOREIGN KEY (tenant_id, change_id)
        REFERENCES memory.changes (tenant_id, change_id) ON DELETE CASCADE
);
CREATE INDEX deliveries_webhook ON memory.deliveries (tenant_id, webhook_id, delivery_id);
CREATE INDEX deliveries_change ON memory.deliveries (tenant_id, change_id);
CREATE INDEX deliveries_finish_time ON memory.deliveries (tenant_id, finish_time) WHERE finish_time IS NOT NULL;

-- Due deliveries of one webhook, without a scan of the others.
CREATE INDEX deliveries_webhook_due ON memory.deliveries (tenant_id, webhook_id, next_time) WHERE state = 'pending';
ALTER TABLE memory.deliveries ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.deliveries FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.deliveries
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.webhooks, memory.deliveries TO skein_memory;
