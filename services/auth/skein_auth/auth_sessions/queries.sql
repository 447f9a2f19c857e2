-- create_sign_in --
-- Keep a new sign-in of an account, or its grant to an application, which is in use from now on.
WITH granted AS (
    UPDATE auth.clients
    SET grant_expire_time = :expire_time
    WHERE client_id = :client_id AND (grant_expire_time IS NULL OR grant_expire_time < :expire_time)
)
INSERT INTO auth.sign_ins
    (tenant_id, sign_in_id, account_id, client_id, scopes, resources, nonce, address, user_agent, auth_time, create_time,
     use_time, expire_time)
VALUES
    (:tenant_id, :sign_in_id, :account_id, :client_id, :scopes, :resources, :nonce, :address, :user_agent, :auth_time,
     :create_time, :create_time, :expire_time);

-- lock_sign_in --
-- Take a sign-in until the transaction ends, so that one of several who present its tokens comes first; with it, whether
-- its account is active.
SELECT tenant_id, sign_in_id, account_id, client_id, scopes, resources, nonce, auth_time, create_time, expire_time,
       coalesce(revoke_time, (SELECT c.revoke_time FROM auth.clients c
                              WHERE c.client_id = s.client_id AND c.revoke_time >= s.create_time)) AS revoke_time,
       (SELECT a.status = 'active' FROM auth.accounts a WHERE a.account_id = s.account_id) AS account_active
FROM auth.sign_ins s
WHERE s.tenant_id = :tenant_id AND s.sign_in_id = :sign_in_id
FOR UPDATE OF s;

-- lock_sign_in_of_code --
-- The same, of the sign-in that a code leads to.
SELECT tenant_id, sign_in_id, account_id, client_id, scopes, resources, nonce, auth_time, create_time, expire_time,
       coalesce(revoke_time, (SELECT c.revoke_time FROM auth.clients c
                              WHERE c.client_id = s.client_id AND c.revoke_time >= s.create_time)) AS revoke_time,
       (SELECT a.status = 'active' FROM auth.accounts a WHERE a.account_id = s.account_id) AS account_active
FROM auth.sign_ins s
WHERE s.tenant_id = :tenant_id
  AND s.sign_in_id = (SELECT c.sign_in_id FROM auth.codes c WHERE c.tenant_id = :tenant_id AND c.code_id = :token_id)
FOR UPDATE OF s;

-- lock_sign_in_of_refresh_token --
-- The same, of the sign-in that a refresh token belongs to.
SELECT tenant_id, sign_in_id, account_id, client_id, scopes, resources, nonce, auth_time, create_time, expire_time,
       coalesce(revoke_time, (SELECT c.revoke_time FROM auth.clients c
                              WHERE c.client_id = s.client_id AND c.revoke_time >= s.create_time)) AS revoke_time,
       (SELECT a.status = 'active' FROM auth.accounts a WHERE a.account_id = s.account_id) AS account_active
FROM auth.sign_ins s
WHERE s.tenant_id = :tenant_id
  AND s.sign_in_id = (SELECT t.sign_in_id FROM auth.refresh_tokens t
                      WHERE t.tenant_id = :tenant_id AND t.refresh_token_id = :token_id)
FOR UPDATE OF s;

-- get_auth_session_of_refresh_token --
-- Read the auth session that a refresh token belongs to, without a lock: for callers that only look.
SELECT tenant_id, sign_in_id, account_id, client_id, scopes, resources, nonce, auth_time, create_time, expire_time,
       coalesce(revoke_time, (SELECT c.revoke_time FROM auth.clients c
                              WHERE c.client_id = s.client_id AND c.revoke_time >= s.create_time)) AS revoke_time,
       (SELECT a.status = 'active' FROM auth.accounts a WHERE a.account_id = s.account_id) AS account_active
FROM auth.sign_ins s
WHERE s.tenant_id = :tenant_id
  AND s.sign_in_id = (SELECT t.sign_in_id FROM auth.refresh_tokens t
                      WHERE t.tenant_id = :tenant_id AND t.refresh_token_id = :token_id);

-- use_sign_in --
-- Record that tokens were given out; a time of :expire_time is from now on its end, and to the day its client's.
WITH granted AS (
    UPDATE auth.clients
    SET grant_expire_time = :expire_time
    WHERE :expire_time::timestamptz IS NOT NULL
      AND client_id = (SELECT s.client_id FROM auth.sign_ins s
                       WHERE s.tenant_id = :tenant_id AND s.sign_in_id = :sign_in_id)
      AND (grant_expire_time IS NULL OR grant_expire_time < :expire_time - interval '1 day')
)
UPDATE auth.sign_ins
SET use_time = :use_time, expire_time = coalesce(:expire_time, expire_time)
WHERE tenant_id = :tenant_id AND sign_in_id = :sign_in_id;

-- revoke_sign_in --
-- End a sign-in with everything that it gave; one that ended before keeps its time.
UPDATE auth.sign_ins
SET revoke_time = :at, revoke_reason = :reason
WHERE tenant_id = :tenant_id AND sign_in_id = :sign_in_id AND revoke_time IS NULL;

-- revoke_sign_in_of_account --
-- End one sign-in of an account, in whichever tenant it is; no row is touched for one that is not live.
UPDATE auth.sign_ins
SET revoke_time = :at, revoke_reason = :reason
WHERE account_id = :account_id AND sign_in_id = :sign_in_id AND revoke_time IS NULL AND expire_time > :at
RETURNING tenant_id;

-- revoke_sign_ins_of_account --
-- End the live sign-ins of an account in every tenant, but one; with :own_only, its own, not those of applications.
UPDATE auth.sign_ins
SET revoke_time = :at, revoke_reason = :reason
WHERE account_id = :account_id AND revoke_time IS NULL AND expire_time > :at
  AND (:but::uuid IS NULL OR sign_in_id <> :but)
  AND (NOT :own_only::boolean
       OR (client_id IS NULL AND tenant_id = '00000000-0000-0000-0000-000000000000'));

-- revoke_sign_ins_of_tenant --
-- End what applications were given in a tenant.
UPDATE auth.sign_ins
SET revoke_time = :at, revoke_reason = :reason
WHERE tenant_id = :tenant_id AND revoke_time IS NULL AND expire_time > :at;

-- list_sign_ins_of_account --
-- Read a page of an account's live sign-ins in every tenant, newest first, without those that nobody redeemed yet;
-- `before` is the last one of the page before.
SELECT s.tenant_id, s.sign_in_id, s.client_id, c.client_name, s.scopes, s.address, s.user_agent, s.create_time,
       s.use_time, s.expire_time
FROM auth.sign_ins s LEFT JOIN auth.clients c ON c.client_id = s.client_id
WHERE s.account_id = :account_id AND s.revoke_time IS NULL AND s.expire_time > :at
  AND (c.revoke_time IS NULL OR c.revoke_time < s.create_time)
  AND (s.client_id IS NULL OR s.use_time > s.create_time)
  AND (:before::uuid IS NULL OR s.sign_in_id < :before)
ORDER BY s.sign_in_id DESC
LIMIT :size;

-- get_standing_of_sign_in --
-- Read what an access token's sign-in is worth now, and its account.
SELECT s.account_id, s.client_id, s.scopes, s.resources, s.expire_time, s.auth_time,
       coalesce(s.revoke_time, (SELECT c.revoke_time FROM auth.clients c
                                WHERE c.client_id = s.client_id AND c.revoke_time >= s.create_time)) AS revoke_time,
       a.status = 'active' AS account_active,
       coalesce(a.email, '') AS email, a.email_verify_time IS NOT NULL AS email_verified, a.display_name
FROM auth.sign_ins s JOIN auth.accounts a ON a.account_id = s.account_id
WHERE s.tenant_id = :tenant_id AND s.sign_in_id = :sign_in_id;

-- delete_expired_sign_ins --
-- Remove some of what ended by time, or was revoked a while ago, with its codes and refresh tokens.
DELETE FROM auth.sign_ins
WHERE tenant_id = :tenant_id
  AND sign_in_id IN (SELECT s.sign_in_id FROM auth.sign_ins s
                     WHERE s.tenant_id = :tenant_id AND (s.expire_time <= :at OR s.revoke_time <= :revoked_before)
                     LIMIT :size);

-- purge_sign_ins --
-- Remove some of what applications were given in a tenant that is being deleted.
DELETE FROM auth.sign_ins
WHERE tenant_id = :tenant_id
  AND sign_in_id IN (SELECT s.sign_in_id FROM auth.sign_ins s WHERE s.tenant_id = :tenant_id LIMIT :size);
