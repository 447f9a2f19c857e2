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
SELECT tenant_id, audit_event_id, event, outcome, reason, principal, account_id, target, client_id, address, user_agent,
    request_id, create_time
FROM auth.audit_events
WHERE tenant_id = :tenant_id
    AND (:account_id::uuid IS NULL OR account_id = :account_id)
    AND (:before::uuid IS NULL OR audit_event_id < :before)
ORDER BY audit_event_id DESC
LIMIT :size;
