-- Known devices: a device that an account signed in from shows a signed token, which names the generation.
ALTER TABLE auth.accounts
    -- Grows whenever all sign-ins of the account end, with a change of the password too; devices of earlier generations
    -- are unknown.
    ADD COLUMN device_generation bigint NOT NULL DEFAULT 1;
