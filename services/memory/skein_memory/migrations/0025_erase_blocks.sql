-- Blocks go with the person that they are about: what they said before is found by person, their copies by block.

-- Of a block, the person that it was about; null for nobody.
ALTER TABLE memory.revisions ADD COLUMN subject_id text;
CREATE INDEX revisions_subject ON memory.revisions (tenant_id, subject_id, item_id) WHERE subject_id IS NOT NULL;
CREATE INDEX snapshot_items_block ON memory.snapshot_items (tenant_id, item_id) WHERE kind = 'block';

-- Name what is there already: tenant by tenant, as row-level security binds the owner too.
DO $$
DECLARE
    tenant uuid;
BEGIN
    PERFORM set_config('skein.operator', 'on', true);
    FOR tenant IN SELECT tenant_id FROM tenancy.tenants LOOP
        PERFORM set_config('skein.tenant_id', tenant::text, true);
        UPDATE memory.revisions SET subject_id = nullif(state ->> 'subject_id', '')
        WHERE tenant_id = tenant AND kind = 'block';
    END LOOP;
    PERFORM set_config('skein.tenant_id', '', true), set_config('skein.operator', '', true);
END $$;
