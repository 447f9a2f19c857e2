"""Organizations as protobuf messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.json_values.fields import fields
from skein_kit.rpc.well_known_types import to_timestamp

if TYPE_CHECKING:
    from skein_tenancy.organizations.model import Organization


def organization(value: Organization) -> pb.Organization:
    return pb.Organization(
        organization_id=str(value.organization_id),
        display_name=value.display_name,
        slug=value.slug,
        revision=value.revision,
        create_time=to_timestamp(value.create_time),
        update_time=to_timestamp(value.update_time),
        **fields(metadata=value.metadata),
    )
