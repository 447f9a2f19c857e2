-- create_subject --
-- Create a subject; no row comes back when the tenant has one with this id.
INSERT INTO tenancy.subjects
    (tenant_id, subject_id, display_name, status, timezone, profile, preferences, account_id, create_time, update_time,
     created_by, updated_by, writers)
VALUES
    (:tenant_id, :subject_id, :display_name, :status, :timezone, :profile::jsonb, :preferences::jsonb, :account_id,
     :create_time, :update_time, :created_by, :created_by, :writers::jsonb)
ON CONFLICT ON CONSTRAINT subjects_pkey DO NOTHING
RETURNING subject_id, display_name, status, timezone, profile, preferences, account_id, revision, create_time,
    update_time, created_by, updated_by, delete_time, writers;

-- get_subject --
-- Read one subject that is not deleted.
SELECT subject_id, display_name, status, timezone, profile, preferences, account_id, revision, create_time,
    update_time, created_by, updated_by, delete_time, writers
FROM tenancy.subjects
WHERE tenant_id = :tenant_id AND subject_id = :subject_id AND delete_time IS NULL;

-- get_subject_revision --
-- Read one revision of a subject, the present one or a former one.
SELECT subject_id, display_name, status, timezone, profile, preferences, account_id, revision, create_time,
    update_time, created_by, updated_by, delete_time, writers
FROM tenancy.subjects
WHERE tenant_id = :tenant_id AND subject_id = :subject_id AND revision = :revision::bigint
UNION ALL
SELECT subject_id, display_name, status, timezone, profile, preferences, account_id, revision, create_time,
    update_time, created_by, updated_by, delete_time, writers
FROM tenancy.subjects_history
WHERE tenant_id = :tenant_id AND subject_id = :subject_id AND revision = :revision
LIMIT 1;

-- space_of_subject --
-- Find the space of a subject, among those that the call reaches: of subjects with one id, the first one that is not deleted.
SELECT space_id
FROM tenancy.subjects
WHERE tenant_id = :tenant_id AND subject_id = :subject_id
ORDER BY delete_time IS NOT NULL, space_id
LIMIT 1;

-- list_subjects --
-- Read a page of the tenant's subjects in order of their ids and spaces, of any status or of one; `after` is the last one of
-- the page before.
SELECT subject_id, display_name, status, timezone, profile, preferences, account_id, revision, create_time,
    update_time, created_by, updated_by, delete_time, writers, space_id
FROM tenancy.subjects
WHERE tenant_id = :tenant_id AND (subject_id, space_id) > (:after::text, :after_space_id::uuid)
  AND (:status::text IS NULL OR status = :status)
  AND (:show_deleted::boolean OR delete_time IS NULL)
ORDER BY subject_id, space_id
LIMIT :size;

-- list_subjects_with_properties --
-- Read a page of the tenant's subjects that have all of five properties, in order of their ids and spaces; fewer are passed by
-- repeating one. With five plain conditions the planner begins with the rarest; each is one range of the primary key.
SELECT s.subject_id, s.display_name, s.status, s.timezone, s.profile, s.preferences, s.account_id, s.revision,
    s.create_time, s.update_time, s.created_by, s.updated_by, s.delete_time, s.writers, s.space_id
FROM tenancy.subjects AS s
WHERE s.tenant_id = :tenant_id AND (s.subject_id, s.space_id) > (:after::text, :after_space_id::uuid)
  AND (:status::text IS NULL OR s.status = :status)
  AND (:show_deleted::boolean OR s.delete_time IS NULL)
  AND EXISTS (SELECT FROM tenancy.subject_properties AS p
              WHERE p.tenant_id = :tenant_id AND p.path = :path_1 AND p.value = :value_1
                AND p.subject_id = s.subject_id AND p.subject_id >= :after AND p.space_id = s.space_id)
  AND EXISTS (SELECT FROM tenancy.subject_properties AS p
              WHERE p.tenant_id = :tenant_id AND p.path = :path_2 AND p.value = :value_2
                AND p.subject_id = s.subject_id AND p.subject_id >= :after AND p.space_id = s.space_id)
  AND EXISTS (SELECT FROM tenancy.subject_properties AS p
              WHERE p.tenant_id = :tenant_id AND p.path = :path_3 AND p.value = :value_3
                AND p.subject_id = s.subject_id AND p.subject_id >= :after AND p.space_id = s.space_id)
  AND EXISTS (SELECT FROM tenancy.subject_properties AS p
              WHERE p.tenant_id = :tenant_id AND p.path = :path_4 AND p.value = :value_4
                AND p.subject_id = s.subject_id AND p.subject_id >= :after AND p.space_id = s.space_id)
  AND EXISTS (SELECT FROM tenancy.subject_properties AS p
              WHERE p.tenant_id = :tenant_id AND p.path = :path_5 AND p.value = :value_5
                AND p.subject_id = s.subject_id AND p.subject_id >= :after AND p.space_id = s.space_id)
ORDER BY s.subject_id, s.space_id
LIMIT :size;

-- lock_subject --
-- Read one subject, deleted or not, and keep others from changing it until the transaction ends.
SELECT subject_id, display_name, status, timezone, profile, preferences, account_id, revision, create_time,
    update_time, created_by, updated_by, delete_time, writers
FROM tenancy.subjects
WHERE tenant_id = :tenant_id AND subject_id = :subject_id
FOR NO KEY UPDATE;

-- update_subject --
-- Change a subject that the transaction has locked. Each display name that it had stays known until its purge.
UPDATE tenancy.subjects
SET display_name = :display_name,
    former_names = array_remove(
        CASE WHEN display_name = ANY (former_names) THEN former_names ELSE array_append(former_names, display_name) END,
        :display_name),
    status = :status, timezone = :timezone, profile = :profile::jsonb,
    preferences = :preferences::jsonb, account_id = :account_id, revision = revision + 1, update_time = :update_time,
    updated_by = :updated_by, writers = :writers::jsonb
WHERE tenant_id = :tenant_id AND subject_id = :subject_id
RETURNING subject_id, display_name, status, timezone, profile, preferences, account_id, revision, create_time,
    update_time, created_by, updated_by, delete_time, writers;

-- find_conflicting_subject --
-- Read the delete time of a subject.
SELECT delete_time
FROM tenancy.subjects
WHERE tenant_id = :tenant_id AND subject_id = :subject_id;

-- delete_subject --
-- Mark a subject as deleted; its id stays taken. No row is updated when there is no such subject.
UPDATE tenancy.subjects
SET delete_time = :delete_time, revision = revision + 1, update_time = :delete_time, updated_by = :deleted_by
WHERE tenant_id = :tenant_id AND subject_id = :subject_id AND delete_time IS NULL;

-- undelete_subject --
-- Bring a deleted subject back that the transaction has locked.
UPDATE tenancy.subjects
SET delete_time = NULL, revision = revision + 1, update_time = :update_time, updated_by = :updated_by,
    writers = :writers::jsonb
WHERE tenant_id = :tenant_id AND subject_id = :subject_id
RETURNING subject_id, display_name, status, timezone, profile, preferences, account_id, revision, create_time,
    update_time, created_by, updated_by, delete_time, writers;

-- purge_subject --
-- Remove a subject for good, and its properties with it.
DELETE FROM tenancy.subjects
WHERE tenant_id = :tenant_id AND subject_id = :subject_id;

-- purge_subject_history --
-- Remove the former versions of a subject for good.
DELETE FROM tenancy.subjects_history
WHERE tenant_id = :tenant_id AND subject_id = :subject_id;

-- clear_subject_responses --
-- Empty the saved responses that contain a subject: a repeated request gets an empty response and does nothing.
UPDATE tenancy.requests
SET response = '', fingerprint = ''
WHERE tenant_id = :tenant_id AND create_time >= :since_time AND response <> '' AND method = ANY (:methods::text[])
    AND position(:prefix::bytea IN response) > 0;

-- read_subject_trust --
-- Read the trust in some writers of profiles.
SELECT source_key, trust
FROM memory.source_trust
WHERE tenant_id = :tenant_id AND source_key = ANY (:source_keys::text[]);

-- insert_subject_properties --
-- Insert the properties of a subject.
INSERT INTO tenancy.subject_properties (tenant_id, path, value, subject_id)
VALUES (:tenant_id, :path, :value, :subject_id);

-- delete_subject_properties --
-- Delete the properties of a subject.
DELETE FROM tenancy.subject_properties
WHERE tenant_id = :tenant_id AND subject_id = :subject_id;

-- clear_subject_events --
-- Remove a purged subject's id from the audit events that are about it.
UPDATE auth.audit_events
SET subject_target = NULL, subject_salt = NULL
WHERE tenant_id = :tenant_id AND subject_target = :target;
