-- Pages: questions whose answers are composed at each read.
SET LOCAL lock_timeout = '5s';

CREATE TABLE memory.pages (
    tenant_id uuid NOT NULL
        CONSTRAINT pages_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    page_id uuid NOT NULL,
    -- NULL: about no subject. A purge of the subject removes the page.
    subject_id text CONSTRAINT pages_subject_id_length CHECK (char_length(subject_id) BETWEEN 1 AND 255),
    -- The entity, which may be in cold storage or gone.
    entity_memory_id uuid,
    is_pinned boolean NOT NULL,
    -- Title, filter and sections: fields of a Page of the contract.
    question jsonb NOT NULL,
    revision bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    created_by text NOT NULL,
    updated_by text NOT NULL,
    space_id uuid NOT NULL DEFAULT skein.space_id(),
    CONSTRAINT pages_pkey PRIMARY KEY (tenant_id, page_id),
    CONSTRAINT pages_about_something
        CHECK (subject_id IS NOT NULL OR entity_memory_id IS NOT NULL OR question ? 'filter')
);
CREATE INDEX pages_order ON memory.pages (tenant_id, is_pinned, page_id);
CREATE INDEX pages_subject ON memory.pages (tenant_id, subject_id) WHERE subject_id IS NOT NULL;
CREATE INDEX pages_entity ON memory.pages (tenant_id, entity_memory_id) WHERE entity_memory_id IS NOT NULL;
ALTER TABLE memory.pages ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.pages FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.pages
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON memory.pages AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN space_id = '00000000-0000-0000-0000-000000000000'
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.pages TO skein_memory;
-- A page as of a time leaves out what was superseded then.
GRANT SELECT ON as_of.trusted_links TO skein_memory;
-- A space is deleted when nothing lies in it.
GRANT SELECT (tenant_id, space_id) ON memory.pages TO skein_tenancy;
