-- list_limits --
-- Read the limits of a tenant by kind: the lower one of its own and its organization's.
SELECT kind, least(max_amount, max_organization_amount) AS max_amount
FROM tenancy.quotas
WHERE tenant_id = :tenant_id AND (max_amount IS NOT NULL OR max_organization_amount IS NOT NULL);

-- add_usage --
-- Add to the usage of a tenant, or subtract from it.
INSERT INTO any_schema.usage AS present (tenant_id, kind, slot, amount)
VALUES (:tenant_id, :kind, :slot, :amount)
ON CONFLICT ON CONSTRAINT usage_pkey DO UPDATE
    SET amount = present.amount + excluded.amount, is_collected = false;

-- charge_usage --
-- Add to the usage of a tenant, and return its usage and its limit. Transactions that count in the same slot wait for
-- each other, so their sum is exact; of other slots it includes what is committed.
WITH added AS (
    INSERT INTO any_schema.usage AS present (tenant_id, kind, slot, amount)
    VALUES (:tenant_id, :kind, :slot, :amount)
    ON CONFLICT ON CONSTRAINT usage_pkey DO UPDATE
        SET amount = present.amount + excluded.amount, is_collected = false
    RETURNING present.amount
)
SELECT (added.amount + coalesce((
           SELECT sum(other.amount) FROM any_schema.usage AS other
           WHERE other.tenant_id = :tenant_id AND other.kind = :kind AND other.slot <> :slot), 0))::bigint AS used,
       (SELECT least(quotas.max_amount, quotas.max_organization_amount) FROM tenancy.quotas
        WHERE quotas.tenant_id = :tenant_id AND quotas.kind = :kind) AS max_amount
FROM added;
