-- Memories move between spaces: what joins two of them is seen by who sees both, and the access log tells by which grant.
SET LOCAL lock_timeout = '5s';

-- The spaces of both memories of a link, today.
ALTER TABLE memory.links
    ADD COLUMN from_space_id uuid NOT NULL DEFAULT skein.space_id(),
    ADD COLUMN to_space_id uuid NOT NULL DEFAULT skein.space_id();
DO $$
DECLARE
    one uuid;
BEGIN
    PERFORM set_config('skein.operator', 'on', true), set_config('skein.all_spaces', 'on', true);
    FOR one IN SELECT tenant_id FROM tenancy.tenants LOOP
        PERFORM set_config('skein.tenant_id', one::text, true);
        UPDATE memory.links
        SET from_space_id = memories.space_id, to_space_id = memories.space_id
        FROM memory.memories
        WHERE links.tenant_id = one AND memories.tenant_id = one AND memories.memory_id = links.from_memory_id
            AND memories.space_id <> '00000000-0000-0000-0000-000000000000';
    END LOOP;
    PERFORM set_config('skein.operator', '', true), set_config('skein.all_spaces', '', true),
            set_config('skein.tenant_id', '', true);
END
$$;
CREATE POLICY space ON memory.links AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN (from_space_id = '00000000-0000-0000-0000-000000000000'
                      AND to_space_id = '00000000-0000-0000-0000-000000000000')
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE from_space_id = ANY (current_setting('skein.spaces', true)::uuid[])
                     AND to_space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- The documents of a memory move with it, and changes that wait for approval.
GRANT UPDATE (space_id) ON memory.pending_memories TO skein_memory;
GRANT UPDATE (space_id) ON recall.documents, recall.documents_history TO skein_memory;

-- The spaces that a call reached, and the grants by which, in the same order; the nil UUID for the default space. A row
-- of a memory has that one's. NULL: the tenant had no spaces.
ALTER TABLE memory.access_log
    ADD COLUMN space_ids uuid[] CONSTRAINT access_log_space_ids_known CHECK (array_position(space_ids, NULL) IS NULL),
    ADD COLUMN space_grant_ids uuid[]
        CONSTRAINT access_log_space_grant_ids_known CHECK (array_position(space_grant_ids, NULL) IS NULL);
-- A reader sees the calls that reached nothing beside what the reader sees.
CREATE POLICY space ON memory.access_log AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE coalesce(space_ids, '{00000000-0000-0000-0000-000000000000}'::uuid[])
                     <@ current_setting('skein.spaces', true)::uuid[] END);
