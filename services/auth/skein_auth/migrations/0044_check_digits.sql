-- Keys of the check digits in API keys: an invented key is recognised without the database.

CREATE TABLE auth.check_keys (
    check_key_id uuid DEFAULT gen_random_uuid() CONSTRAINT check_keys_pkey PRIMARY KEY,
    -- Two random UUIDs hold 244 random bits.
    secret bytea NOT NULL DEFAULT sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'))
        CONSTRAINT check_keys_secret_length CHECK (octet_length(secret) = 32),
    create_time timestamptz NOT NULL DEFAULT now()
);
INSERT INTO auth.check_keys DEFAULT VALUES;
GRANT SELECT ON auth.check_keys TO skein_auth;
