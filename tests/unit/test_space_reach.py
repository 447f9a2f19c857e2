"""The spaces that a call reaches, by each method's declaration."""

from __future__ import annotations

import uuid

import pytest

from skein_kit.errors import SpaceNotFound, SpacesUnsupported
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import ACCESS_RULES
from skein_kit.identity.spaces import DEFAULT_SPACE, MANAGER


def caller(*space_ids: uuid.UUID) -> Caller:
    spaces = tuple((space_id, MANAGER) for space_id in space_ids) or None
    return Caller(principal="api_key:x", tenant_id=uuid.uuid4(), permissions=frozenset(), spaces=spaces)


@pytest.mark.parametrize("spaces", [(), (DEFAULT_SPACE, uuid.UUID(int=7))], ids=["without spaces", "with spaces"])
@pytest.mark.parametrize("named", ["Vt(K", str(uuid.UUID(int=8))])
def test_no_method_ignores_a_space_that_its_caller_does_not_see(spaces: tuple[uuid.UUID, ...], named: str) -> None:
    answered = []
    for path, rule in ACCESS_RULES.items():
        try:
            rule.space_ids(caller(*spaces), named)
        except (SpaceNotFound, SpacesUnsupported):
            continue
        answered.append(path)

    assert answered == []


def test_a_tenant_without_spaces_has_the_default_one() -> None:
    for path, rule in ACCESS_RULES.items():
        assert rule.space_ids(caller(), "") is None, path
        assert rule.space_ids(caller(), str(DEFAULT_SPACE)) is None, path
