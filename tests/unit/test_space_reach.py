"""The spaces that a call reaches."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from skein_kit.errors import PermissionMissing, SpaceNotFound, SpacesUnsupported
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import ACCESS_RULES
from skein_kit.identity.space_reach import manages_spaces, narrowed, whole_reach
from skein_kit.identity.spaces import ALL_SPACES, DEFAULT_SPACE, READER, WRITER

SPACE = uuid.UUID("01990000-0000-7000-8000-000000000001")
MANAGER = Caller(
    principal="api_key:1",
    tenant_id=uuid.uuid4(),
    permissions=frozenset({"spaces.write"}),
    spaces=((DEFAULT_SPACE, WRITER), (SPACE, READER)),
)


def test_a_manager_of_the_spaces_goes_through_all_of_them() -> None:
    assert whole_reach(MANAGER, "") == ALL_SPACES
    assert whole_reach(MANAGER, str(DEFAULT_SPACE)) == ALL_SPACES
    assert manages_spaces(MANAGER)


def test_a_tenant_without_spaces_has_nothing_to_go_through() -> None:
    assert whole_reach(replace(MANAGER, spaces=None, permissions=frozenset()), "") is None


def test_who_lacks_the_permission_is_bound_or_names_a_space_goes_through_none() -> None:
    with pytest.raises(PermissionMissing):
        whole_reach(replace(MANAGER, permissions=frozenset()), "")
    bound = replace(MANAGER, spaces=((SPACE, WRITER),))
    with pytest.raises(SpacesUnsupported):
        whole_reach(bound, "")
    with pytest.raises(SpacesUnsupported):
        whole_reach(MANAGER, str(SPACE))
    assert not manages_spaces(bound)


def test_a_reach_is_narrowed_and_never_widened() -> None:
    assert narrowed((DEFAULT_SPACE, SPACE), [SPACE, uuid.uuid4()]) == (SPACE,)
    assert narrowed((SPACE,), [DEFAULT_SPACE]) == ()
    assert narrowed(None, [SPACE]) is None


def test_no_space_has_the_id_that_stands_for_all() -> None:
    assert ALL_SPACES[0].version != uuid.UUID(str(SPACE)).version


def caller(*space_ids: uuid.UUID) -> Caller:
    spaces = tuple((space_id, WRITER) for space_id in space_ids) or None
    return Caller(principal="api_key:x", tenant_id=uuid.uuid4(), permissions=frozenset(), spaces=spaces)


@pytest.mark.parametrize("spaces", [(), (DEFAULT_SPACE, uuid.UUID(int=7))], ids=["without spaces", "with spaces"])
@pytest.mark.parametrize("named", ["Vt(K", str(uuid.UUID(int=8))])
def test_no_method_ignores_a_space_that_its_caller_does_not_see(spaces: tuple[uuid.UUID, ...], named: str) -> None:
    answered = []
    for path, rule in ACCESS_RULES.items():
        try:
            rule.space_ids(caller(*spaces), named)
        except (PermissionMissing, SpaceNotFound, SpacesUnsupported):
            continue
        answered.append(path)

    assert answered == []


def test_a_tenant_without_spaces_has_the_default_one() -> None:
    for path, rule in ACCESS_RULES.items():
        assert rule.space_ids(caller(), "") is None, path
        assert rule.space_ids(caller(), str(DEFAULT_SPACE)) is None, path
