"""`skein policy`: the tenant's policy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import click
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import options, output

_FIELDS = pb.Policy.DESCRIPTOR.fields_by_name
# UpdatePolicy takes effect within this time.
EFFECT_SECONDS = 1.0


@click.command()
@click.argument("changes", nargs=-1, metavar="[FIELD=VALUE]...")
@options.cluster_answer
async def policy_command(changes: Sequence[str], environment: dict[str, str]) -> options.Answer:
    """Show the tenant's policy, or change fields of it first.

    FIELD=VALUE is `extraction=rules` or `memory_types=note,fact`; a map is JSON. All services follow when the command
    ends.
    """
    policy = _policy(changes)
    async with as_tenant(environment) as api:
        if changes:
            mask = FieldMask(paths=[change.partition("=")[0] for change in changes])
            request = pb.UpdatePolicyRequest(policy=policy, update_mask=mask)
            policy = (await api.tenancy.UpdatePolicy(request)).policy
            await asyncio.sleep(EFFECT_SECONDS)
        else:
            policy = (await api.tenancy.GetPolicy(pb.GetPolicyRequest())).policy
    yield policy
    lines = [
        (name, value if isinstance(value, str) else json.dumps(value))
        for name, value in output.message_to_dict(policy).items()
    ]
    output.print_table(output.table("field", "value", ids=("field",)), lines, empty="")


def _policy(changes: Sequence[str]) -> pb.Policy:
    """Return a policy with the changed fields. Raises UsageError."""
    values: dict[str, object] = {}
    for change in changes:
        name, sign, text = change.partition("=")
        if not sign or name not in _FIELDS:
            raise click.UsageError(f"{change} names no field of a policy: write FIELD=VALUE.")
        field = _FIELDS[name]
        if field.is_repeated and field.message_type is None:
            values[name] = [part for part in text.split(",") if part]
        elif field.type == field.TYPE_STRING:
            values[name] = text
        elif field.enum_type is not None:
            values[name] = f"{name}_{text}".upper()
        else:
            try:
                values[name] = json.loads(text)
            except ValueError:
                raise click.UsageError(f"{text} is no value of {name}.") from None
    try:
        return json_format.ParseDict(values, pb.Policy())
    except json_format.ParseError as error:
        raise click.UsageError(str(error)) from None
