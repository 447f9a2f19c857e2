-- The key that page tokens are signed with: no caller can make one.

CREATE TABLE skein.page_token_keys (
    key_id uuid DEFAULT gen_random_uuid() CONSTRAINT page_token_keys_pkey PRIMARY KEY,
    -- Two random UUIDs hold 244 random bits.
    secret bytea NOT NULL DEFAULT sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'))
        CONSTRAINT page_token_keys_secret_length CHECK (octet_length(secret) = 32),
    create_time timestamptz NOT NULL DEFAULT now()
);
INSERT INTO skein.page_token_keys DEFAULT VALUES;
GRANT SELECT ON skein.page_token_keys TO skein_auth, skein_tenancy, skein_session, skein_memory, skein_recall;
