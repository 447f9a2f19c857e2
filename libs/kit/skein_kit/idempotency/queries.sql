-- claim_request --
-- Claim a request id, or return its saved response; an expired response is claimed again.
-- A claim waits for another transaction that has claimed the same id.
WITH claim AS (
    INSERT INTO any_schema.requests AS saved
        (tenant_id, principal, method, request_id, fingerprint, response, create_time)
    VALUES (:tenant_id, :principal, :method, :request_id, :fingerprint, :response, :create_time)
    ON CONFLICT ON CONSTRAINT requests_pkey DO UPDATE
        SET fingerprint = CASE WHEN saved.create_time < :expired_before THEN excluded.fingerprint ELSE saved.fingerprint END,
            response = CASE WHEN saved.create_time < :expired_before THEN excluded.response ELSE saved.response END,
            create_time = CASE WHEN saved.create_time < :expired_before THEN excluded.create_time ELSE saved.create_time END
    RETURNING saved.fingerprint, saved.response, saved.create_time
)
SELECT fingerprint, response, create_time = :create_time AS claimed
FROM claim;

-- save_response --
-- Save the response of a claimed request.
UPDATE any_schema.requests
SET response = :response
WHERE tenant_id = :tenant_id AND principal = :principal AND method = :method AND request_id = :request_id;

-- replace_response --
-- Replace the response of a committed request, unless a purge has emptied it.
UPDATE any_schema.requests
SET response = :response
WHERE tenant_id = :tenant_id AND principal = :principal AND method = :method AND request_id = :request_id
    AND response <> '';

-- delete_expired_requests --
-- Delete a tenant's expired responses.
DELETE FROM any_schema.requests
WHERE tenant_id = :tenant_id AND create_time < :expired_before;
