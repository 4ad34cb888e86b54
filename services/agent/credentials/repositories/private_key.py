"""Parses a tenant's private key at a bounded cost, because it runs on the event loop. Pure.

OpenSSL tests the primes of an RSA key when it loads it. With large numbers that takes minutes, in which no other thread
of the process runs. So the test is skipped. Instead the numbers are compared with each other here, because OpenSSL must
not get numbers that do not belong together. A key with numbers that are no primes makes signatures that no server
accepts, in a time that the key's size bounds.
"""

from __future__ import annotations

import math
from typing import Any

import asyncssh

from services.agent.credentials.repositories.login import unusable

MAX_RSA_BITS = 4096
"""A signature with such a key takes milliseconds. With a malicious key of twice the size it takes a quarter of a
second."""
MAX_EXPONENT_BITS = 64
MAX_IMBALANCE_BITS = 16
"""By how many bits the two primes of a modulus may differ: signing with unlike primes is slow."""

_SMALL_FACTORS = math.prod(range(2, 1000))
"""No prime of a key has these factors. With them OpenSSL needs many attempts per signature, of milliseconds each."""

RSA = "ssh-rsa"
_ACCEPTED = (RSA, "ssh-ed25519", "ssh-ed448", "ecdsa-sha2-")
"""Accepted key types: neither DSA nor keys that need a device."""


def private_key(text: str) -> asyncssh.SSHKey:
    """The key in ``text``. Raises CheckFailed if it is unreadable, protected, or of a type or size not accepted."""
    key = _imported(text)
    algorithm = key.get_algorithm()
    numbers: Any = key.pyca_key.private_numbers() if algorithm == RSA else None  # type: ignore[union-attr]
    if not algorithm.startswith(_ACCEPTED) or (numbers is not None and not _is_small(numbers)):
        raise unusable(f"keys of type {algorithm} or of this size are not accepted; use ed25519")
    if numbers is not None and not _belong_together(numbers):
        raise unusable("the field sshPrivateKey cannot be read")
    return key


def _imported(text: str) -> asyncssh.SSHKey:
    try:
        return asyncssh.import_private_key(text, unsafe_skip_rsa_key_validation=True)
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        locked = isinstance(error, asyncssh.KeyEncryptionError) or str(error).startswith("Passphrase must be")
        why = "is protected by a passphrase; store it without one" if locked else "cannot be read"
    except (ValueError, ArithmeticError, LookupError, TypeError, RecursionError):
        why = "cannot be read"  # numbers that do not fit, parts that are missing, parts within parts without end
    raise unusable(f"the field sshPrivateKey {why}")


def _is_small(numbers: Any) -> bool:
    public = numbers.public_numbers
    imbalance: int = abs(numbers.p.bit_length() - numbers.q.bit_length())
    is_short: bool = public.n.bit_length() <= MAX_RSA_BITS and public.e.bit_length() <= MAX_EXPONENT_BITS
    return is_short and imbalance <= MAX_IMBALANCE_BITS


def _belong_together(numbers: Any) -> bool:
    """Whether the numbers belong to one key, provided ``p`` and ``q`` are primes."""
    p, q, d, public = numbers.p, numbers.q, numbers.d, numbers.public_numbers
    if min(p, q) <= 1 or p * q != public.n or math.gcd(public.n, _SMALL_FACTORS) != 1:
        return False
    exponents: bool = (numbers.dmp1, numbers.dmq1) == (d % (p - 1), d % (q - 1))
    inverses: bool = d * public.e % (p - 1) == d * public.e % (q - 1) == numbers.iqmp * q % p == 1
    return exponents and inverses
