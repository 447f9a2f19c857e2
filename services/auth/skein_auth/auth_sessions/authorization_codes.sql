-- create_code --
-- Keep the code that leads to a sign-in.
INSERT INTO auth.codes
    (tenant_id, code_id, sign_in_id, secret_hash, redirect_uri, code_challenge, create_time, expire_time)
VALUES
    (:tenant_id, :code_id, :sign_in_id, :secret_hash, :redirect_uri, :code_challenge, :create_time, :expire_time);

-- get_code --
-- Read what decides whether a presented code is good.
SELECT code_id, secret_hash, redirect_uri, code_challenge, create_time, expire_time, use_time
FROM auth.codes
WHERE tenant_id = :tenant_id AND code_id = :code_id;

-- use_code --
-- Spend the code of a sign-in.
UPDATE auth.codes
SET use_time = :use_time
WHERE tenant_id = :tenant_id AND sign_in_id = :sign_in_id AND use_time IS NULL;
