-- create_one_time_token --
-- Keep a new token.
INSERT INTO auth.one_time_tokens (token_id, account_id, purpose, secret_hash, email, create_time, expire_time)
VALUES (:token_id, :account_id, :purpose, :secret_hash, :email, :create_time, :expire_time);

-- find_one_time_token --
-- Read the account that a token is of, while it is good.
SELECT t.account_id
FROM auth.one_time_tokens t JOIN auth.accounts a ON a.account_id = t.account_id
WHERE t.token_id = :token_id AND t.secret_hash = :secret_hash AND t.purpose = :purpose AND t.use_time IS NULL
    AND t.expire_time > :at AND t.email = coalesce(a.email, '') AND a.status = 'active';

-- spend_one_time_token --
-- Spend a token: of those who present it at once, one gets the row.
UPDATE auth.one_time_tokens
SET use_time = :at
WHERE token_id = :token_id AND secret_hash = :secret_hash AND purpose = :purpose AND use_time IS NULL AND expire_time > :at
RETURNING account_id, email;

-- spend_one_time_tokens --
-- Make every other token of an account worth nothing that has this purpose.
UPDATE auth.one_time_tokens
SET use_time = :at
WHERE account_id = :account_id AND purpose = :purpose AND use_time IS NULL;
