"""RSA keys that somebody has made up, in the form that OpenSSL writes them."""

from __future__ import annotations

import base64

E = 65537


def rsa_pem(p: int, q: int, /, **changed: int) -> str:
    """The private key of ``p`` and ``q``, which are primes or not; ``changed``: numbers that do not fit."""
    d = pow(E, -1, (p - 1) * (q - 1))
    numbers = {"n": p * q, "e": E, "d": d, "p": p, "q": q, "dp": d % (p - 1), "dq": d % (q - 1), "i": pow(q, -1, p)}
    return pem("RSA", _sequence(*map(_integer, [0, *(numbers | changed).values()])))


def openssh_rsa(*numbers: int) -> str:
    """The numbers ``n e d iqmp p q`` as OpenSSH writes them."""
    private = b"\0\0\0\1" * 2 + _string(b"ssh-rsa") + b"".join(map(_mpint, numbers)) + _string(b"")
    private += bytes(range(1, 1 + -len(private) % 8))
    none = _string(b"none")
    return pem("OPENSSH", b"openssh-key-v1\0" + none * 2 + _string(b"") + b"\0\0\0\1" + _string(b"") + _string(private))


def nested(depth: int) -> str:
    """Sequences within sequences."""
    content = b""
    for _ in range(depth):
        content = _sequence(content)
    return pem("RSA", content)


def pem(label: str, content: bytes) -> str:
    text = base64.encodebytes(content).decode()
    return f"-----BEGIN {label} PRIVATE KEY-----\n{text}-----END {label} PRIVATE KEY-----\n"


def _string(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def _mpint(number: int) -> bytes:
    return _string(number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _sequence(*parts: bytes) -> bytes:
    content = b"".join(parts)
    return b"\x30" + _length(len(content)) + content


def _integer(number: int) -> bytes:
    content = number.to_bytes(number.bit_length() // 8 + 1, "big")
    return b"\x02" + _length(len(content)) + content


def _length(size: int) -> bytes:
    if size < 0x80:
        return bytes([size])
    encoded = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(encoded)]) + encoded
