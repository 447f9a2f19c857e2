-- create_refresh_token --
-- Keep the live refresh token of a sign-in; the database refuses a second one.
INSERT INTO auth.refresh_tokens (tenant_id, refresh_token_id, sign_in_id, secret_hash, create_time, expire_time)
VALUES (:tenant_id, :refresh_token_id, :sign_in_id, :secret_hash, :create_time, :expire_time);

-- get_refresh_token --
-- Read what decides whether a presented refresh token is good, and the one that took its place.
SELECT t.refresh_token_id, t.secret_hash, t.create_time, t.expire_time, t.replace_time, t.replaced_by,
       n.refresh_token_id AS next_id, n.secret_hash AS next_secret_hash, n.create_time AS next_create_time,
       n.expire_time AS next_expire_time, n.replace_time AS next_replace_time, n.replaced_by AS next_replaced_by
FROM auth.refresh_tokens t
LEFT JOIN auth.refresh_tokens n ON n.tenant_id = t.tenant_id AND n.refresh_token_id = t.replaced_by
WHERE t.tenant_id = :tenant_id AND t.refresh_token_id = :refresh_token_id;

-- get_live_refresh_token --
-- Read the refresh token of a sign-in that no other one took the place of.
SELECT refresh_token_id, secret_hash, create_time, expire_time
FROM auth.refresh_tokens
WHERE tenant_id = :tenant_id AND sign_in_id = :sign_in_id AND replace_time IS NULL;

-- replace_refresh_token --
-- Let a live refresh token give way to the next one.
UPDATE auth.refresh_tokens
SET replace_time = :replace_time, replaced_by = :replaced_by
WHERE tenant_id = :tenant_id AND refresh_token_id = :refresh_token_id AND replace_time IS NULL;
