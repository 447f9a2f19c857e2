"""Files of erasure certificates: their canonical form, their signature, and the Merkle tree of their tombstones."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fix_catalogue import over

from skein_kit.erasure_certificates import document, merkle
from skein_kit.erasure_certificates.document import CertificateInvalid, CertificateKeyUnknown

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
TOMBSTONES = {
    "memory": [hashlib.sha256(bytes([n])).digest() for n in range(3)],
    "session": [hashlib.sha256(bytes([n])).digest() for n in range(7, 9)],
}


def statement() -> dict[str, Any]:
    return {
        "certificate_id": "c",
        "complete": True,
        "deleted_counts": {"memory.memories": 3},
        **document.tombstone_fields(TOMBSTONES),
    }


def a_file(tombstones: dict[str, list[bytes]] | None = TOMBSTONES) -> bytes:
    return document.write(statement(), "k1", document.sign(statement(), KEY, "k1"), tombstones)


def test_a_file_is_verified_with_the_public_key_alone() -> None:
    result = document.verify(a_file(), {"k1": KEY.public_key()})

    assert result.statement == statement()
    assert result.tombstones == {service: sorted(digests) for service, digests in TOMBSTONES.items()}


def test_a_file_without_its_list_of_tombstones_is_verified_without_them() -> None:
    assert document.verify(a_file(None), {"k1": KEY.public_key()}).tombstones is None


@pytest.mark.system
def test_a_file_with_any_character_changed_or_missing_fails() -> None:
    file, keys = a_file(), {"k1": KEY.public_key()}

    for position in range(len(file)):
        for changed in (
            bytes([file[position] ^ 1 << position % 8]),
            b"",
            file[position : position + 1] * 2,
            b" ",
            file[position : position + 1].swapcase(),
        ):
            damaged = file[:position] + changed + file[position + 1 :]
            if damaged != file:
                with pytest.raises(CertificateInvalid):
                    document.verify(damaged, keys)


def test_a_file_with_something_after_its_end_fails() -> None:
    with pytest.raises(CertificateInvalid):
        document.verify(a_file() + b"\n", {"k1": KEY.public_key()})


def test_another_key_with_the_same_id_does_not_verify() -> None:
    other = Ed25519PrivateKey.from_private_bytes(bytes(31) + b"1").public_key()

    with pytest.raises(CertificateInvalid, match="signature"):
        document.verify(a_file(), {"k1": other})


def test_a_key_that_is_not_published_is_named() -> None:
    with pytest.raises(CertificateKeyUnknown, match="k1"):
        document.verify(a_file(), {})


@over("value", [1.5, None, {"ü": 1}, 2**53, ["x", 1e3]])
def test_values_without_one_canonical_form_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="canonical"):
        document.canonical_json({"a": value})


def test_canonical_json_is_as_the_standard_shows_it() -> None:
    # RFC 8785, section 3.2.2.2, without its numbers.
    value = {"string": '€$\x0f\nA\'B"\\\\"/', "b": True, "a": [{"z": 1, "y": -2}]}

    text = '{"a":[{"y":-2,"z":1}],"b":true,"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    assert document.canonical_json(value) == text.encode()


def test_roots_are_those_of_certificate_transparency() -> None:
    # Vectors of the reference implementation of RFC 6962.
    leaves = [
        bytes.fromhex(text)
        for text in (
            "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
        )
    ]  # fmt: skip

    assert merkle.root([]).hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert merkle.root(leaves[:1]).hex() == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    assert merkle.root(leaves[:3]).hex() == "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"
    assert merkle.root(leaves).hex() == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"


def test_every_leaf_has_a_proof_and_no_other_value_has() -> None:
    for count in range(1, 34):
        leaves = [bytes([n]) for n in range(count)]
        expected_root = merkle.root(leaves)
        for index, leaf in enumerate(leaves):
            proof = merkle.inclusion_proof(leaves, index)

            assert merkle.proves_inclusion(leaf, index, count, proof, expected_root)
            assert not merkle.proves_inclusion(b"other", index, count, proof, expected_root)
            assert not merkle.proves_inclusion(leaf, index, count, [*proof, bytes(32)], expected_root)
            assert not merkle.proves_inclusion(leaf, count, count, proof, expected_root)


def test_an_inner_node_is_no_leaf() -> None:
    leaves = [b"a", b"b"]
    node = b"".join(hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves)

    assert merkle.root([node]) != merkle.root(leaves)
