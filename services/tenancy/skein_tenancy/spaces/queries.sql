-- create_space --
-- Create a space; no row comes back when another one has the name.
INSERT INTO tenancy.spaces
    (tenant_id, space_id, display_name, description, create_time, update_time, created_by, updated_by)
VALUES
    (:tenant_id, :space_id, :display_name, :description, :create_time, :create_time, :created_by, :created_by)
ON CONFLICT ON CONSTRAINT spaces_name_key DO NOTHING
RETURNING space_id, display_name, description, revision, create_time, update_time, created_by, updated_by;

-- count_spaces --
-- Count the spaces of a tenant.
SELECT count(*) FROM tenancy.spaces WHERE tenant_id = :tenant_id;

-- get_space --
-- Read one space.
SELECT space_id, display_name, description, revision, create_time, update_time, created_by, updated_by
FROM tenancy.spaces
WHERE tenant_id = :tenant_id AND space_id = :space_id;

-- list_spaces --
-- Read a page of spaces, oldest first; of some ids, or of all.
SELECT space_id, display_name, description, revision, create_time, update_time, created_by, updated_by
FROM tenancy.spaces
WHERE tenant_id = :tenant_id AND space_id > :after::uuid
    AND (:space_ids::uuid[] IS NULL OR space_id = ANY (:space_ids))
ORDER BY space_id
LIMIT :size;

-- list_open_spaces --
-- Name the spaces of a tenant that had a grant: in no other one lies anything.
SELECT space_id
FROM tenancy.spaces
WHERE tenant_id = :tenant_id AND open_time IS NOT NULL
ORDER BY space_id;

-- lock_space --
-- Read one space, and keep others from changing it and its grants until the transaction ends.
SELECT space_id, display_name, description, revision, create_time, update_time, created_by, updated_by
FROM tenancy.spaces
WHERE tenant_id = :tenant_id AND space_id = :space_id
FOR UPDATE;

-- update_space --
-- Change a space that the transaction has locked.
UPDATE tenancy.spaces
SET display_name = :display_name, description = :description, revision = revision + 1, update_time = :update_time,
    updated_by = :updated_by
WHERE tenant_id = :tenant_id AND space_id = :space_id
RETURNING space_id, display_name, description, revision, create_time, update_time, created_by, updated_by;

-- set_grant_end_time --
-- Record when the last grant of a space was revoked.
UPDATE tenancy.spaces
SET grant_end_time = :grant_end_time
WHERE tenant_id = :tenant_id AND space_id = :space_id;

-- delete_space --
-- Remove a space without grants and without items; no row is deleted otherwise.
DELETE FROM tenancy.spaces AS s
WHERE s.tenant_id = :tenant_id AND s.space_id = :space_id AND (s.grant_end_time IS NULL OR s.grant_end_time < :ended_before)
    AND NOT EXISTS (SELECT FROM tenancy.space_grants AS g
                    WHERE g.tenant_id = :tenant_id AND g.space_id = :space_id AND g.revoke_time IS NULL)
    AND NOT EXISTS (SELECT FROM memory.memories AS m
                    WHERE m.tenant_id = :tenant_id AND m.space_id = :space_id
                        AND m.space_id <> '00000000-0000-0000-0000-000000000000')
    AND NOT EXISTS (SELECT FROM memory.pending_memories AS p
                    WHERE p.tenant_id = :tenant_id AND p.space_id = :space_id)
    AND NOT EXISTS (SELECT FROM memory.pages AS q
                    WHERE q.tenant_id = :tenant_id AND q.space_id = :space_id)
    AND NOT EXISTS (SELECT FROM memory.archived_memories AS a
                    WHERE a.tenant_id = :tenant_id AND a.space_id = :space_id)
    AND NOT EXISTS (SELECT FROM memory.snapshots AS c
                    WHERE c.tenant_id = :tenant_id AND c.space_id = :space_id)
    AND NOT EXISTS (SELECT FROM session.sessions AS c
                    WHERE c.tenant_id = :tenant_id AND c.space_id = :space_id
                        AND c.space_id <> '00000000-0000-0000-0000-000000000000')
    AND NOT EXISTS (SELECT FROM session.agent_states AS t
                    WHERE t.tenant_id = :tenant_id AND t.space_id = :space_id
                        AND t.space_id <> '00000000-0000-0000-0000-000000000000')
    AND NOT EXISTS (SELECT FROM memory.blocks AS b
                    WHERE b.tenant_id = :tenant_id AND b.space_id = :space_id
                        AND b.space_id <> '00000000-0000-0000-0000-000000000000')
    AND NOT EXISTS (SELECT FROM tenancy.subjects AS p
                    WHERE p.tenant_id = :tenant_id AND p.space_id = :space_id
                        AND p.space_id <> '00000000-0000-0000-0000-000000000000');

-- open_space --
-- Open a space that has its first grant: at once, or later where it is the first one of the tenant.
UPDATE tenancy.spaces AS s
SET open_time = CASE
        WHEN EXISTS (SELECT FROM tenancy.spaces AS other
                     WHERE other.tenant_id = :tenant_id AND other.open_time IS NOT NULL)
        THEN :at::timestamptz ELSE :first_open_time::timestamptz END
WHERE s.tenant_id = :tenant_id AND s.space_id = :space_id AND s.open_time IS NULL;

-- insert_grant --
-- Store a grant of a principal that has none of the space that is not revoked.
INSERT INTO tenancy.space_grants
    (tenant_id, grant_id, space_id, principal, role, expire_time, is_delegable, create_time, created_by,
     delegating_grant_id)
VALUES (:tenant_id, :grant_id, :space_id, :principal, :role, :expire_time, :is_delegable, :create_time, :created_by,
        :delegating_grant_id);

-- revoke_grants --
-- Revoke the grant of a space that a principal has, and those that the principal passed on by it. Processes of an older
-- release know the time of expiry alone.
UPDATE tenancy.space_grants AS g
SET revoke_time = :at, expire_time = least(g.expire_time, :at)
WHERE g.tenant_id = :tenant_id AND g.space_id = :space_id AND g.revoke_time IS NULL
    AND (g.principal = :principal
         OR g.delegating_grant_id IN (
             SELECT own.grant_id FROM tenancy.space_grants AS own
             WHERE own.tenant_id = :tenant_id AND own.space_id = :space_id AND own.principal = :principal
                 AND own.revoke_time IS NULL))
RETURNING g.principal;

-- has_valid_grant --
-- Whether a principal has a valid grant of a space.
SELECT EXISTS (
    SELECT FROM tenancy.space_grants
    WHERE tenant_id = :tenant_id AND space_id = :space_id AND principal = :principal
        AND (expire_time IS NULL OR expire_time > :at));

-- count_grants --
-- Count the other spaces that a principal sees.
SELECT count(*)
FROM tenancy.space_grants
WHERE tenant_id = :tenant_id AND principal = :principal AND space_id <> :space_id
    AND (expire_time IS NULL OR expire_time > :at);

-- bind_principal --
-- Bind a principal to what is granted to it.
INSERT INTO tenancy.space_bindings (tenant_id, principal, create_time, created_by)
VALUES (:tenant_id, :principal, :create_time, :created_by)
ON CONFLICT ON CONSTRAINT space_bindings_pkey DO NOTHING;

-- unbind_principal --
-- Let a principal see the default space again.
DELETE FROM tenancy.space_bindings
WHERE tenant_id = :tenant_id AND principal = :principal;

-- list_bound --
-- Return which of some principals are bound.
SELECT principal
FROM tenancy.space_bindings
WHERE tenant_id = :tenant_id AND principal = ANY (:principals::text[]);

-- list_grants --
-- Read a page of the grants of a space that are not revoked, expired ones too, in order of their principals.
SELECT grant_id, space_id, principal, role, expire_time, is_delegable, create_time, created_by, delegating_grant_id
FROM tenancy.space_grants
WHERE tenant_id = :tenant_id AND space_id = :space_id AND revoke_time IS NULL AND principal > :after
ORDER BY principal
LIMIT :size;

-- list_valid_grants --
-- Read the grants of some principals that are valid at a time, of spaces that are open. What a delegate passed on is
-- valid while the delegate's own grant is.
SELECT g.grant_id, g.space_id, g.principal, g.role, g.expire_time, g.is_delegable, g.create_time, g.created_by,
       g.delegating_grant_id
FROM tenancy.space_grants AS g
JOIN tenancy.spaces AS s ON s.tenant_id = g.tenant_id AND s.space_id = g.space_id
WHERE g.tenant_id = :tenant_id AND g.principal = ANY (:principals::text[]) AND s.open_time <= :at
    AND (g.expire_time IS NULL OR g.expire_time > :at) AND g.revoke_time IS NULL
    AND (g.delegating_grant_id IS NULL OR EXISTS (
        SELECT FROM tenancy.space_grants AS own
        WHERE own.tenant_id = g.tenant_id AND own.grant_id = g.delegating_grant_id AND own.revoke_time IS NULL
            AND (own.expire_time IS NULL OR own.expire_time > :at)));

-- list_grants_of_all_times --
-- Read the newest grants of a space that some principals have or had.
SELECT grant_id, space_id, principal, role, expire_time, is_delegable, create_time, created_by, delegating_grant_id,
       revoke_time
FROM tenancy.space_grants
WHERE tenant_id = :tenant_id AND space_id = :space_id AND principal = ANY (:principals::text[])
ORDER BY revoke_time DESC NULLS FIRST, create_time DESC
LIMIT :count;

-- find_space_of_memory --
-- Return the space of a memory that the transaction sees.
SELECT space_id FROM memory.memories WHERE tenant_id = :tenant_id AND memory_id = :memory_id;
