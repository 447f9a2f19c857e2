-- save_response_of_session --
-- Save the response of a claimed request, and the session that it shows.
UPDATE session.requests
SET response = :response, session_id = :session_id
WHERE tenant_id = :tenant_id AND principal = :principal AND method = :method AND request_id = :request_id;
