-- create_auth_session --
-- Insert a session of an account, or its grant to a client.
INSERT INTO auth.auth_sessions
    (tenant_id, auth_session_id, account_id, client_id, scopes, resources, nonce, address, user_agent, auth_time, create_time,
     use_time, expire_time)
VALUES
    (:tenant_id, :auth_session_id, :account_id, :client_id, :scopes, :resources, :nonce, :address, :user_agent, :auth_time,
     :create_time, :create_time, :expire_time);

-- lock_auth_session --
-- Lock a session until the transaction ends, so that one of several transactions with its tokens is first; read whether
-- its account is active.
SELECT tenant_id, auth_session_id, account_id, client_id, scopes, resources, nonce, auth_time, create_time, expire_time,
       coalesce(revoke_time, (SELECT c.revoke_time FROM auth.clients c
                              WHERE c.client_id = s.client_id AND c.revoke_time >= s.create_time)) AS revoke_time,
       (SELECT a.status = 'active' FROM auth.accounts a WHERE a.account_id = s.account_id) AS account_active
FROM auth.auth_sessions s
WHERE s.tenant_id = :tenant_id AND s.auth_session_id = :auth_session_id
FOR UPDATE OF s;

-- lock_auth_session_of_code --
-- The same, for the session of an authorization code.
SELECT tenant_id, auth_session_id, account_id, client_id, scopes, resources, nonce, auth_time, create_time, expire_time,
       coalesce(revoke_time, (SELECT c.revoke_time FROM auth.clients c
                              WHERE c.client_id = s.client_id AND c.revoke_time >= s.create_time)) AS revoke_time,
       (SELECT a.status = 'active' FROM auth.accounts a WHERE a.account_id = s.account_id) AS account_active
FROM auth.auth_sessions s
WHERE s.tenant_id = :tenant_id
  AND s.auth_session_id = (SELECT c.auth_session_id FROM auth.authorization_codes c WHERE c.tenant_id = :tenant_id AND c.code_id = :token_id)
FOR UPDATE OF s;

-- lock_auth_session_of_refresh_token --
-- The same, for the session of a refresh token.
SELECT tenant_id, auth_session_id, account_id, client_id, scopes, resources, nonce, auth_time, create_time, expire_time,
       coalesce(revoke_time, (SELECT c.revoke_time FROM auth.clients c
                              WHERE c.client_id = s.client_id AND c.revoke_time >= s.create_time)) AS revoke_time,
       (SELECT a.status = 'active' FROM auth.accounts a WHERE a.account_id = s.account_id) AS account_active
FROM auth.auth_sessions s
WHERE s.tenant_id = :tenant_id
  AND s.auth_session_id = (SELECT t.auth_session_id FROM auth.refresh_tokens t
                      WHERE t.tenant_id = :tenant_id AND t.refresh_token_id = :token_id)
FOR UPDATE OF s;

-- get_auth_session_of_refresh_token --
-- Read the session of a refresh token without a lock.
SELECT tenant_id, auth_session_id, account_id, client_id, scopes, resources, nonce, auth_time, create_time, expire_time,
       coalesce(revoke_time, (SELECT c.revoke_time FROM auth.clients c
                              WHERE c.client_id = s.client_id AND c.revoke_time >= s.create_time)) AS revoke_time,
       (SELECT a.status = 'active' FROM auth.accounts a WHERE a.account_id = s.account_id) AS account_active
FROM auth.auth_sessions s
WHERE s.tenant_id = :tenant_id
  AND s.auth_session_id = (SELECT t.auth_session_id FROM auth.refresh_tokens t
                      WHERE t.tenant_id = :tenant_id AND t.refresh_token_id = :token_id);

-- use_auth_session --
-- Record that tokens were issued; :expire_time, unless NULL, becomes the expiry of the session.
UPDATE auth.auth_sessions
SET use_time = :use_time, expire_time = coalesce(:expire_time, expire_time)
WHERE tenant_id = :tenant_id AND auth_session_id = :auth_session_id;

-- is_grant_last --
-- Return true when a client's last grant, as its row knows it, expires before a time.
SELECT true
FROM auth.clients
WHERE client_id = :client_id AND (grant_expire_time IS NULL OR grant_expire_time < :before);

-- extend_client --
-- Set when the last grant of a client expires, unless another one expires later.
UPDATE auth.clients
SET grant_expire_time = :expire_time
WHERE client_id = :client_id AND (grant_expire_time IS NULL OR grant_expire_time < :expire_time);

-- revoke_auth_session --
-- Revoke a session with its tokens; a revoked one keeps its time.
UPDATE auth.auth_sessions
SET revoke_time = :at, revoke_reason = :reason
WHERE tenant_id = :tenant_id AND auth_session_id = :auth_session_id AND revoke_time IS NULL;

-- revoke_auth_session_of_account --
-- Revoke one live session of an account, in any tenant.
UPDATE auth.auth_sessions
SET revoke_time = :at, revoke_reason = :reason
WHERE account_id = :account_id AND auth_session_id = :auth_session_id AND revoke_time IS NULL AND expire_time > :at
RETURNING tenant_id;

-- revoke_auth_sessions_of_account --
-- Revoke the live sessions of an account in every tenant, except one.
UPDATE auth.auth_sessions
SET revoke_time = :at, revoke_reason = :reason
WHERE account_id = :account_id AND revoke_time IS NULL AND expire_time > :at
  AND (:except_session::uuid IS NULL OR auth_session_id <> :except_session);

-- revoke_auth_sessions_of_tenant --
-- Revoke the grants of a tenant.
UPDATE auth.auth_sessions
SET revoke_time = :at, revoke_reason = :reason
WHERE tenant_id = :tenant_id AND revoke_time IS NULL AND expire_time > :at;

-- list_auth_sessions_of_account --
-- Read a page of an account's live sessions in every tenant, newest first, without grants that are not used yet; `before`
-- is the last id of the page before.
SELECT s.tenant_id, s.auth_session_id, s.client_id, c.client_name, s.scopes, s.address, s.user_agent, s.create_time,
       s.use_time, s.expire_time
FROM auth.auth_sessions s LEFT JOIN auth.clients c ON c.client_id = s.client_id
WHERE s.account_id = :account_id AND s.revoke_time IS NULL AND s.expire_time > :at
  AND (c.revoke_time IS NULL OR c.revoke_time < s.create_time)
  AND (s.client_id IS NULL OR s.use_time > s.create_time)
  AND (:before::uuid IS NULL OR s.auth_session_id < :before)
ORDER BY s.auth_session_id DESC
LIMIT :size;

-- get_auth_session_state --
-- Read the state of an access token's session, and of its account.
SELECT s.account_id, s.client_id, s.scopes, s.resources, s.expire_time, s.auth_time,
       coalesce(s.revoke_time, (SELECT c.revoke_time FROM auth.clients c
                                WHERE c.client_id = s.client_id AND c.revoke_time >= s.create_time)) AS revoke_time,
       a.status = 'active' AS account_active,
       coalesce(a.email, '') AS email, a.email_verify_time IS NOT NULL AS email_verified, a.display_name
FROM auth.auth_sessions s JOIN auth.accounts a ON a.account_id = s.account_id
WHERE s.tenant_id = :tenant_id AND s.auth_session_id = :auth_session_id;

-- delete_expired_auth_sessions --
-- Delete some expired or long revoked sessions with their codes and refresh tokens.
DELETE FROM auth.auth_sessions
WHERE tenant_id = :tenant_id
  AND auth_session_id IN (SELECT s.auth_session_id FROM auth.auth_sessions s
                     WHERE s.tenant_id = :tenant_id AND (s.expire_time <= :at OR s.revoke_time <= :revoked_before)
                     LIMIT :size);

-- purge_auth_sessions --
-- Purge some sessions of a deleted tenant.
DELETE FROM auth.auth_sessions
WHERE tenant_id = :tenant_id
  AND auth_session_id IN (SELECT s.auth_session_id FROM auth.auth_sessions s WHERE s.tenant_id = :tenant_id LIMIT :size);

-- create_code --
-- Insert the authorization code of a session.
INSERT INTO auth.authorization_codes
    (tenant_id, code_id, auth_session_id, secret_hash, redirect_uri, code_challenge, create_time, expire_time)
VALUES
    (:tenant_id, :code_id, :auth_session_id, :secret_hash, :redirect_uri, :code_challenge, :create_time, :expire_time);

-- get_code --
-- Read what a presented code is checked against.
SELECT code_id, secret_hash, redirect_uri, code_challenge, create_time, expire_time, use_time
FROM auth.authorization_codes
WHERE tenant_id = :tenant_id AND code_id = :code_id;

-- use_code --
-- Mark a session's authorization code as used.
UPDATE auth.authorization_codes
SET use_time = :use_time
WHERE tenant_id = :tenant_id AND auth_session_id = :auth_session_id AND use_time IS NULL;

-- create_refresh_token --
-- Insert the live refresh token of a session; the database refuses a second one.
INSERT INTO auth.refresh_tokens (tenant_id, refresh_token_id, auth_session_id, secret_hash, create_time, expire_time)
VALUES (:tenant_id, :refresh_token_id, :auth_session_id, :secret_hash, :create_time, :expire_time);

-- get_refresh_token --
-- Read what a presented refresh token is checked against, and its successor.
SELECT t.refresh_token_id, t.secret_hash, t.create_time, t.expire_time, t.replace_time, t.replaced_by,
       n.refresh_token_id AS next_id, n.secret_hash AS next_secret_hash, n.create_time AS next_create_time,
       n.expire_time AS next_expire_time, n.replace_time AS next_replace_time, n.replaced_by AS next_replaced_by
FROM auth.refresh_tokens t
LEFT JOIN auth.refresh_tokens n ON n.tenant_id = t.tenant_id AND n.refresh_token_id = t.replaced_by
WHERE t.tenant_id = :tenant_id AND t.refresh_token_id = :refresh_token_id;

-- get_live_refresh_token --
-- Read the refresh token of a session that has no successor.
SELECT refresh_token_id, secret_hash, create_time, expire_time
FROM auth.refresh_tokens
WHERE tenant_id = :tenant_id AND auth_session_id = :auth_session_id AND replace_time IS NULL;

-- replace_refresh_token --
-- Replace a live refresh token by its successor.
UPDATE auth.refresh_tokens
SET replace_time = :replace_time, replaced_by = :replaced_by
WHERE tenant_id = :tenant_id AND refresh_token_id = :refresh_token_id AND replace_time IS NULL;
