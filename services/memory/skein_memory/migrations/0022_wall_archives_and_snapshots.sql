-- Archives, snapshots and webhooks lie in one space each: that of the call that made them.
SET LOCAL lock_timeout = '5s';

-- A constant default rewrites no rows.
ALTER TABLE memory.archives ADD COLUMN space_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000';
ALTER TABLE memory.archives ALTER COLUMN space_id SET DEFAULT skein.space_id();
DROP POLICY space ON memory.archives;
CREATE POLICY space ON memory.archives AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN space_id = '00000000-0000-0000-0000-000000000000'
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);

ALTER TABLE memory.snapshots ADD COLUMN space_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000';
ALTER TABLE memory.snapshots ALTER COLUMN space_id SET DEFAULT skein.space_id();
DROP POLICY space ON memory.snapshots;
CREATE POLICY space ON memory.snapshots AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN space_id = '00000000-0000-0000-0000-000000000000'
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- An item has the space of its snapshot.
ALTER TABLE memory.snapshot_items ADD COLUMN space_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000';
ALTER TABLE memory.snapshot_items ALTER COLUMN space_id SET DEFAULT skein.space_id();
DROP POLICY space ON memory.snapshot_items;
CREATE POLICY space ON memory.snapshot_items AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN space_id = '00000000-0000-0000-0000-000000000000'
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);
GRANT SELECT (tenant_id, space_id) ON memory.snapshots TO skein_tenancy;
-- A receipt is shown to who sees its items.
GRANT SELECT (space_id) ON memory.archived_memories TO skein_recall;

ALTER TABLE memory.webhooks ADD COLUMN space_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000';
ALTER TABLE memory.webhooks ALTER COLUMN space_id SET DEFAULT skein.space_id();
-- The callers that made and changed it, each as {"principals": [...], "client": ""}. It is active while all of them see
-- its space.
ALTER TABLE memory.webhooks ADD COLUMN makers jsonb NOT NULL DEFAULT '[]';
CREATE POLICY space ON memory.webhooks AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN space_id = '00000000-0000-0000-0000-000000000000'
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);
GRANT SELECT (tenant_id, space_id, principal, expire_time) ON tenancy.space_grants TO skein_memory;
GRANT SELECT (tenant_id, principal) ON tenancy.space_bindings TO skein_memory;
