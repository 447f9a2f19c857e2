-- OAuth clients that authenticate with signed assertions (RFC 7523) have public keys in place of a secret.
SET LOCAL lock_timeout = '5s';

ALTER TABLE auth.clients
    -- URL of a JWK Set.
    ADD COLUMN jwks_uri text NOT NULL DEFAULT '',
    -- A JWK Set with public keys, as JSON.
    ADD COLUMN jwks text NOT NULL DEFAULT '',
    DROP CONSTRAINT clients_method_known,
    ADD CONSTRAINT clients_method_known CHECK (
        token_endpoint_auth_method IN ('none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt')),
    DROP CONSTRAINT clients_secret_fits_method,
    ADD CONSTRAINT clients_secret_fits_method CHECK (
        (token_endpoint_auth_method IN ('none', 'private_key_jwt')) = (secret_hash IS NULL)),
    ADD CONSTRAINT clients_keys_fit_method CHECK (
        token_endpoint_auth_method <> 'private_key_jwt' OR (jwks_uri = '') <> (jwks = ''));
