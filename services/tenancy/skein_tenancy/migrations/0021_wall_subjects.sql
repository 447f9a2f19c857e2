-- Profiles of people lie in spaces: a person may have one in each.
SET LOCAL lock_timeout = '5s';

-- No row is rewritten: all of them lie in the default space, which the catalog says of them.
ALTER TABLE tenancy.subjects ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE tenancy.subjects_history ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();
ALTER TABLE tenancy.subject_properties ADD COLUMN space_id uuid NOT NULL DEFAULT skein.space_id();

ALTER TABLE tenancy.subjects DROP CONSTRAINT subjects_pkey CASCADE,
    ADD CONSTRAINT subjects_pkey PRIMARY KEY (tenant_id, subject_id, space_id);
ALTER TABLE tenancy.subject_properties DROP CONSTRAINT subject_properties_pkey,
    ADD CONSTRAINT subject_properties_pkey PRIMARY KEY (tenant_id, path, value, subject_id, space_id),
    ADD CONSTRAINT subject_properties_subject_fkey FOREIGN KEY (tenant_id, subject_id, space_id)
        REFERENCES tenancy.subjects (tenant_id, subject_id, space_id) ON DELETE CASCADE;

-- Whether anything lies in a space.
CREATE INDEX subjects_space ON tenancy.subjects (tenant_id, space_id)
    WHERE space_id <> '00000000-0000-0000-0000-000000000000';
-- Of the zones of a person, the first space's counts.
GRANT SELECT (space_id) ON tenancy.subjects TO skein_memory, skein_session, skein_recall;
GRANT SELECT (space_id) ON tenancy.subjects_history TO skein_recall;

DO $$
DECLARE
    walled text;
BEGIN
    FOREACH walled IN ARRAY ARRAY['subjects', 'subjects_history', 'subject_properties'] LOOP
        EXECUTE format($policy$
            CREATE POLICY space ON tenancy.%I AS RESTRICTIVE
                USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                            THEN space_id = '00000000-0000-0000-0000-000000000000'
                                 OR current_setting('skein.all_spaces', true) = 'on'
                                 OR current_setting('skein.operator', true) = 'on'
                            ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END)
            $policy$, walled);
    END LOOP;
END
$$;

-- until_time stands before the space in the history, so the triggers name the columns.
DROP TRIGGER keep_updated ON tenancy.subjects;
CREATE TRIGGER keep_updated BEFORE UPDATE ON tenancy.subjects
    FOR EACH ROW WHEN (OLD.revision IS DISTINCT FROM NEW.revision)
    EXECUTE FUNCTION skein.keep_updated(
        'tenancy.subjects_history (tenant_id, subject_id, display_name, status, timezone, profile, preferences, account_id, revision, create_time, update_time, created_by, updated_by, delete_time, writers, record_time, former_names, space_id, until_time)');
DROP TRIGGER keep_deleted ON tenancy.subjects;
CREATE TRIGGER keep_deleted AFTER DELETE ON tenancy.subjects
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION skein.keep_deleted(
        'tenancy.subjects_history (tenant_id, subject_id, display_name, status, timezone, profile, preferences, account_id, revision, create_time, update_time, created_by, updated_by, delete_time, writers, record_time, former_names, space_id, until_time)');

CREATE OR REPLACE VIEW as_of.subjects WITH (security_invoker = true) AS
SELECT tenant_id, subject_id, display_name, status, timezone, profile, preferences, account_id, revision, create_time,
    update_time, created_by, updated_by, delete_time, writers, record_time, space_id
FROM tenancy.subjects
WHERE record_time <= (SELECT skein.as_of_time())
UNION ALL
SELECT tenant_id, subject_id, display_name, status, timezone, profile, preferences, account_id, revision, create_time,
    update_time, created_by, updated_by, delete_time, writers, record_time, space_id
FROM tenancy.subjects_history
WHERE record_time <= (SELECT skein.as_of_time()) AND until_time > (SELECT skein.as_of_time());
