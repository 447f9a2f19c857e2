-- create_device_code --
-- Insert a device authorization; no row is inserted when another one has the same user code.
INSERT INTO auth.device_codes
    (device_code_id, secret_hash, user_code, client_id, scopes, resources, state, interval_seconds, create_time,
     expire_time)
VALUES
    (:device_code_id, :secret_hash, :user_code, :client_id, :scopes, :resources, 'pending', :interval_seconds,
     :create_time, :expire_time)
ON CONFLICT ON CONSTRAINT device_codes_user_code_key DO NOTHING;

-- get_device_code --
-- Read the device authorization with a user code, and its client.
SELECT d.device_code_id, d.secret_hash, d.client_id, d.scopes, d.resources, d.state, d.interval_seconds, d.poll_time,
       d.expire_time, d.approved_tenant_id, d.approved_auth_session_id, c.client_name, c.client_uri
FROM auth.device_codes d JOIN auth.clients c ON c.client_id = d.client_id
WHERE d.user_code = :user_code;

-- lock_device_code --
-- Lock a device authorization until the transaction ends, so that one of several transactions with its code is first.
SELECT device_code_id, secret_hash, client_id, scopes, resources, state, interval_seconds, poll_time, expire_time,
       approved_tenant_id, approved_auth_session_id
FROM auth.device_codes
WHERE device_code_id = :device_code_id
FOR UPDATE;

-- poll_device_code --
-- Record a poll of a device and its result.
UPDATE auth.device_codes
SET poll_time = :poll_time, interval_seconds = :interval_seconds, state = :state
WHERE device_code_id = :device_code_id;

-- answer_device_code --
-- Record a person's answer; no row is updated when there is one.
UPDATE auth.device_codes
SET state = :state, approved_tenant_id = :approved_tenant_id, approved_auth_session_id = :approved_auth_session_id
WHERE device_code_id = :device_code_id AND state = 'pending' AND expire_time > :at;

-- delete_expired_device_codes --
-- Delete expired device authorizations.
DELETE FROM auth.device_codes
WHERE expire_time <= :at;
