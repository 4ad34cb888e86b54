"""Parses a tenant's private key, at a bounded cost: it runs on the event loop. Pure.

OpenSSL tests the primes of an RSA key when it loads it. With large numbers that takes minutes, in which no other thread
of the process runs. So the test is skipped; instead the numbers are compared with each other here, because OpenSSL must
not be given numbers that do not belong together. A key whose numbers pass without being primes makes signatures that no
server accepts, in a time that its size bounds.
"""

from __future__ import annotations

import math
from typing import Any

import asyncssh

from services.agent.credentials.repositories.login import unusable

MAX_RSA_BITS = 4096
"""Signing with such a key takes milliseconds, with one twice as long a quarter of a second if it is made for that."""
MAX_EXPONENT_BITS = 64
MAX_IMBALANCE_BITS = 16
"""By which the two primes of a modulus differ in length: signing with unlike ones is slow."""

_SMALL_FACTORS = math.prod(range(2, 1000))
"""Of no prime of a key. With such factors OpenSSL needs many attempts to blind a signature, each of milliseconds."""

RSA = "ssh-rsa"
_ACCEPTED = (RSA, "ssh-ed25519", "ssh-ed448", "ecdsa-sha2-")
"""Neither DSA nor keys that need a device."""


def private_key(text: str) -> asyncssh.SSHKey:
    """The key that ``text`` holds. Raises CheckFailed: unreadable, protected, or of a type or size not accepted."""
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
    """Whether they are those of one key, if ``p`` and ``q`` are primes."""
    p, q, d, public = numbers.p, numbers.q, numbers.d, numbers.public_numbers
    if min(p, q) <= 1 or p * q != public.n or math.gcd(public.n, _SMALL_FACTORS) != 1:
        return False
    exponents: bool = (numbers.dmp1, numbers.dmq1) == (d % (p - 1), d % (q - 1))
    inverses: bool = d * public.e % (p - 1) == d * public.e % (q - 1) == numbers.iqmp * q % p == 1
    return exponents and inverses
