"""Keys as text and signatures of a nonce."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable

import pytest
from nacl.signing import SigningKey

from jetspark.server.identity import (
    PREFIX_SERVER,
    PREFIX_USER,
    decode_key,
    encode_key,
    is_signature_valid,
    new_nonce,
    new_server_id,
)


def test_a_server_id_is_a_key_that_starts_with_n() -> None:
    server_id = new_server_id(os.urandom)

    assert len(server_id) == 56
    assert server_id.startswith("N")
    assert decode_key(PREFIX_SERVER, server_id) is not None


def test_a_known_public_key_is_read() -> None:
    # From the nkeys documentation: a user key made by the reference implementation.
    text = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"

    key = decode_key(PREFIX_USER, text)

    assert key is not None
    assert encode_key(PREFIX_USER, key) == text


@pytest.mark.parametrize("text", ["", "U", "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF5", "not base32!"])
def test_text_that_is_no_key_is_refused(text: str) -> None:
    assert decode_key(PREFIX_USER, text) is None


def test_a_key_of_another_sort_is_refused() -> None:
    assert decode_key(PREFIX_USER, new_server_id(os.urandom)) is None


def test_a_nonce_is_fifteen_characters() -> None:
    assert len(new_nonce(os.urandom)) == 15


@pytest.mark.parametrize("encode", [base64.urlsafe_b64encode, base64.b64encode])
def test_a_signature_of_the_nonce_passes_in_both_alphabets(encode: Callable[[bytes], bytes]) -> None:
    key = SigningKey.generate()
    nonce = new_nonce(os.urandom)
    signature = encode(key.sign(nonce.encode()).signature).decode().rstrip("=")

    assert is_signature_valid(bytes(key.verify_key), nonce, signature)
    assert not is_signature_valid(bytes(key.verify_key), nonce + "x", signature)
    assert not is_signature_valid(bytes(SigningKey.generate().verify_key), nonce, signature)


@pytest.mark.parametrize("signature", ["", "AAAA", "*", "=" * 88])
def test_text_that_is_no_signature_does_not_pass(signature: str) -> None:
    assert not is_signature_valid(bytes(SigningKey.generate().verify_key), "nonce", signature)
