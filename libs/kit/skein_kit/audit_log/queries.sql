-- create_audit_event --
-- Record in the audit log who changed what.
INSERT INTO auth.audit_events
    (tenant_id, audit_event_id, event, outcome, principal, account_id, target, client_id, address, user_agent, request_id,
     create_time, subject_target, subject_salt, subject_digest)
VALUES
    (:tenant_id, :audit_event_id, :event, 'success', :principal, :account_id, :target, :client_id, :address, :user_agent,
     :request_id, :create_time, :subject_target, :subject_salt, :subject_digest);
