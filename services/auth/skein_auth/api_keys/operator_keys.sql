-- create_operator_key --
-- Keep a key of the operator; no row is touched when there is one with this id.
INSERT INTO auth.operator_keys (api_key_id, display_name, secret_hash, create_time)
VALUES (:api_key_id, :display_name, :secret_hash, :create_time)
ON CONFLICT ON CONSTRAINT operator_keys_pkey DO NOTHING;

-- find_operator_key --
-- Read what decides whether a presented key of the operator is good.
SELECT secret_hash, expire_time, revoke_time
FROM auth.operator_keys
WHERE api_key_id = :api_key_id;
