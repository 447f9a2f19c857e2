-- More rules of a tenant's memory, read by the services that remember.

ALTER TABLE tenancy.policies
    ADD COLUMN audit_strict boolean,
    ADD COLUMN audit_query_text boolean,
    ADD COLUMN session_idle_minutes integer,
    ADD COLUMN archive_days integer,
    ADD COLUMN webhook_max_failures integer,
    ADD COLUMN capacity_strategic integer,
    ADD COLUMN capacity_tactical integer,
    ADD COLUMN capacity_operational integer,
    ADD COLUMN capacity_contextual integer,
    ADD COLUMN levels_capped boolean;
GRANT SELECT ON tenancy.policies TO skein_session, skein_memory;
