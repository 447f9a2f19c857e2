-- Blocks lie in spaces, with the agents that carry them and their former revisions.
SET LOCAL lock_timeout = '5s';

-- No row is rewritten: all of them lie in the default space, which the catalog says of them. A taken id or label of
-- another space is no obstacle, which would tell of it.
ALTER TABLE memory.blocks ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE memory.block_agents ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE memory.block_agents_history ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
-- Of blocks: that of the block, today. The other kinds are read with their memories.
ALTER TABLE memory.revisions ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();

-- The agents of a block lie where it lies.
ALTER TABLE memory.blocks DROP CONSTRAINT blocks_pkey CASCADE,
    ADD CONSTRAINT blocks_pkey PRIMARY KEY (tenant_id, block_id, space_id);
ALTER TABLE memory.block_agents DROP CONSTRAINT block_agents_pkey, DROP CONSTRAINT block_agents_label_key,
    ADD CONSTRAINT block_agents_pkey PRIMARY KEY (tenant_id, agent_id, block_id, space_id),
    ADD CONSTRAINT block_agents_label_key UNIQUE (tenant_id, agent_id, subject_id, label, space_id),
    ADD CONSTRAINT block_agents_block_fkey FOREIGN KEY (tenant_id, block_id, space_id)
        REFERENCES memory.blocks (tenant_id, block_id, space_id) ON DELETE CASCADE;
ALTER TABLE memory.revisions DROP CONSTRAINT revisions_pkey,
    ADD CONSTRAINT revisions_pkey PRIMARY KEY (tenant_id, kind, item_id, revision, space_id);

-- Whether anything lies in a space.
CREATE INDEX blocks_space ON memory.blocks (tenant_id, space_id)
    WHERE space_id <> '00000000-0000-0000-0000-000000000000';
GRANT SELECT (tenant_id, space_id) ON memory.blocks TO skein_tenancy;

DROP POLICY space ON memory.blocks;
CREATE POLICY space ON memory.blocks AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN space_id = '00000000-0000-0000-0000-000000000000'
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);
DROP POLICY space ON memory.block_agents;
CREATE POLICY space ON memory.block_agents AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN space_id = '00000000-0000-0000-0000-000000000000'
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);
DROP POLICY space ON memory.block_agents_history;
CREATE POLICY space ON memory.block_agents_history AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN space_id = '00000000-0000-0000-0000-000000000000'
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);
CREATE POLICY space ON memory.revisions AS RESTRICTIVE
    USING (kind <> 'block' OR
           CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN space_id = '00000000-0000-0000-0000-000000000000'
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- until_time stands before the space in the history, so the triggers name the columns.
DROP TRIGGER keep_updated ON memory.block_agents;
CREATE TRIGGER keep_updated BEFORE UPDATE ON memory.block_agents
    FOR EACH ROW WHEN ((OLD.label, OLD.subject_id) IS DISTINCT FROM (NEW.label, NEW.subject_id))
    EXECUTE FUNCTION skein.keep_updated(
        'memory.block_agents_history (tenant_id, agent_id, block_id, label, subject_id, attach_time, attached_by, record_time, space_id, until_time)');
DROP TRIGGER keep_deleted ON memory.block_agents;
CREATE TRIGGER keep_deleted AFTER DELETE ON memory.block_agents
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION skein.keep_deleted(
        'memory.block_agents_history (tenant_id, agent_id, block_id, label, subject_id, attach_time, attached_by, record_time, space_id, until_time)');

CREATE OR REPLACE VIEW as_of.block_agents WITH (security_invoker = true) AS
SELECT tenant_id, agent_id, block_id, label, subject_id, attach_time, attached_by, record_time, space_id
FROM memory.block_agents
WHERE record_time <= (SELECT skein.as_of_time())
UNION ALL
SELECT tenant_id, agent_id, block_id, label, subject_id, attach_time, attached_by, record_time, space_id
FROM memory.block_agents_history
WHERE record_time <= (SELECT skein.as_of_time()) AND until_time > (SELECT skein.as_of_time());
CREATE OR REPLACE VIEW as_of.blocks WITH (security_invoker = true) AS
SELECT known.tenant_id, known.block_id, known.label, known.value, known.max_characters, known.description,
       known.read_only, known.is_template, known.template_name, known.subject_id, known.metadata, known.delete_time,
       known.revision, known.create_time, known.update_time, known.created_by, known.updated_by, known.writers,
       known.record_time, known.space_id
FROM (
    SELECT tenant_id, block_id, label, value, max_characters, description, read_only, is_template, template_name,
           subject_id, metadata, delete_time, revision, create_time, update_time, created_by, updated_by,
           writers, greatest(record_time, update_time) AS record_time, 'infinity'::timestamptz AS until_time,
           'block' AS kind, space_id
    FROM memory.blocks
    UNION ALL
    SELECT tenant_id, item_id COLLATE "C", state ->> 'label', state ->> 'value', (state ->> 'max_characters')::integer,
           state ->> 'description', (state ->> 'read_only')::boolean, (state ->> 'is_template')::boolean,
           state ->> 'template_name', state ->> 'subject_id', nullif(state -> 'metadata', 'null'::jsonb),
           (state ->> 'delete_time')::timestamptz, revision, (state ->> 'create_time')::timestamptz,
           coalesce((state ->> 'update_time')::timestamptz, from_time), state ->> 'created_by', state ->> 'updated_by',
           state -> 'writers', from_time, until_time, kind, space_id
    FROM memory.revisions
) AS known
WHERE known.kind = 'block'
    AND known.record_time <= (SELECT skein.as_of_time()) AND known.record_time <> ALL ((SELECT skein.unseen_times())::timestamptz[])
    AND known.until_time > (SELECT skein.first_unseen_time())
    AND (known.until_time > (SELECT skein.as_of_time()) OR known.until_time = ANY ((SELECT skein.unseen_times())::timestamptz[]));
