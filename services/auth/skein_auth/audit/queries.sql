-- create_audit_event --
-- Insert an event.
INSERT INTO auth.audit_events
    (tenant_id, audit_event_id, event, outcome, reason, principal, account_id, target, client_id, address, user_agent,
     request_id, create_time)
VALUES
    (:tenant_id, :audit_event_id, :event, :outcome, :reason, :principal, :account_id, :target, :client_id, :address,
     :user_agent, :request_id, :create_time);

-- list_audit_events --
-- Read a page of a tenant's events, newest first, of one account or of all; `before` is the last id of the page before.
SELECT tenant_id, audit_event_id, event, outcome, reason, principal, account_id, coalesce(subject_target, target) AS target,
    client_id, address, user_agent, request_id, create_time
FROM auth.audit_events
WHERE tenant_id = :tenant_id
    AND (:account_id::uuid IS NULL OR account_id = :account_id)
    AND (:before::uuid IS NULL OR audit_event_id < :before)
ORDER BY audit_event_id DESC
LIMIT :size;

-- last_audit_checkpoint --
-- Read the last checkpoint of a tenant.
SELECT tenant_id, number, statement, key_id, signature, covered_id
FROM auth.audit_checkpoints
WHERE tenant_id = :tenant_id
ORDER BY number DESC
LIMIT 1;

-- read_unchained_events --
-- Read a tenant's events between two ids, oldest first, with all that a checkpoint covers.
SELECT tenant_id, audit_event_id, event, outcome, reason, principal, account_id, target, client_id, address, user_agent,
    request_id, create_time, subject_digest
FROM auth.audit_events
WHERE tenant_id = :tenant_id AND audit_event_id >= :first_id AND audit_event_id < :end_id
ORDER BY audit_event_id
LIMIT :size;

-- read_audit_events --
-- Read the events of a checkpoint, oldest first.
SELECT tenant_id, audit_event_id, event, outcome, reason, principal, account_id, target, client_id, address, user_agent,
    request_id, create_time, subject_digest
FROM auth.audit_events
WHERE tenant_id = :tenant_id AND audit_event_id BETWEEN :first_event_id AND :last_event_id
ORDER BY audit_event_id;

-- create_audit_checkpoint --
-- Insert a checkpoint; no row is inserted when another worker was first.
INSERT INTO auth.audit_checkpoints
    (tenant_id, number, day, covered_id, statement, key_id, signature, event_digests, create_time)
VALUES
    (:tenant_id, :number, :day, :covered_id, :statement, :key_id, :signature, :event_digests, :create_time)
ON CONFLICT ON CONSTRAINT audit_checkpoints_pkey DO NOTHING;

-- list_expired_checkpoints --
-- Read the oldest checkpoints of a tenant, after one, whose events expired and are not removed.
SELECT tenant_id, number, day, statement, key_id, signature
FROM auth.audit_checkpoints
WHERE tenant_id = :tenant_id AND expire_time IS NULL AND day < :before
    AND (day, number) > (:after_day::date, :after_number::bigint)
ORDER BY day, number
LIMIT :size;

-- expire_audit_checkpoint --
-- Remove the events of a checkpoint, and keep the checkpoint.
SELECT expired.audit_event_id
FROM (SELECT :tenant_id::uuid AS tenant_id) AS place,
    auth.expire_audit_checkpoint(place.tenant_id, :number, :first_event_id, :last_event_id)
        AS expired (audit_event_id);

-- list_unchained_tenants --
-- Read tenants, after one, with events between two ids that no checkpoint covers.
SELECT due.tenant_id
FROM auth.list_unchained_tenants(:first_id, :end_id, :after, :size) AS due (tenant_id);
