-- claim_request --
-- Take a request id for one piece of work, or return the answer that it has; an answer past its time is taken over.
-- A request that is being answered by another transaction is waited for.
WITH claim AS (
    INSERT INTO any_schema.requests AS held
        (tenant_id, principal, method, request_id, fingerprint, response, create_time)
    VALUES (:tenant_id, :principal, :method, :request_id, :fingerprint, :response, :create_time)
    ON CONFLICT ON CONSTRAINT requests_pkey DO UPDATE
        SET fingerprint = CASE WHEN held.create_time < :expired_before THEN excluded.fingerprint ELSE held.fingerprint END,
            response = CASE WHEN held.create_time < :expired_before THEN excluded.response ELSE held.response END,
            create_time = CASE WHEN held.create_time < :expired_before THEN excluded.create_time ELSE held.create_time END
    RETURNING held.fingerprint, held.response, held.create_time
)
SELECT fingerprint, response, create_time = :create_time AS claimed
FROM claim;

-- answer_request --
-- Keep the answer of a claimed request.
UPDATE any_schema.requests
SET response = :response
WHERE tenant_id = :tenant_id AND principal = :principal AND method = :method AND request_id = :request_id;

-- correct_request --
-- Replace the answer of a request unless it was emptied: what it spoke of is gone for good then.
UPDATE any_schema.requests
SET response = :response
WHERE tenant_id = :tenant_id AND principal = :principal AND method = :method AND request_id = :request_id
    AND response <> '';

-- delete_expired_requests --
-- Remove a tenant's answers that are past their time.
DELETE FROM any_schema.requests
WHERE tenant_id = :tenant_id AND create_time < :expired_before;
