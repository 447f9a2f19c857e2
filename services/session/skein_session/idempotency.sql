-- save_response_of_session --
-- Keep the answer of a claimed request, with the session that it shows something of.
UPDATE session.requests
SET response = :response, session_id = :session_id
WHERE tenant_id = :tenant_id AND principal = :principal AND method = :method AND request_id = :request_id;
