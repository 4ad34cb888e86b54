"""Bearer tokens of the schema registry: signed by the operator, checked by the registry with the public key alone.

Apicurio 2.6 knows users through OpenID Connect alone. Given a public key (``quarkus.oidc.public-key``) it asks no
server for them: whoever shows a token that the key verifies is let in, with the rights of the role that it names, until
it expires. Client certificates it cannot ask for: Quarkus settles that when Apicurio is built.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from services.common.errors import InvalidConfiguration


class RegistryRole(StrEnum):
    """What the holder of a token may do."""

    READER = "reader"
    """Services, and Connect's converters."""
    WRITER = "writer"
    """``gitopsctl schemas apply``."""
    ADMINISTRATOR = "administrator"
    """``gitopsctl schemas export`` and ``import``."""


ROLES = {
    RegistryRole.READER: "sr-readonly",
    RegistryRole.WRITER: "sr-developer",
    RegistryRole.ADMINISTRATOR: "sr-admin",
}
"""What Apicurio calls them."""


def issue_token(private_key: bytes, holder: str, role: RegistryRole, now: datetime, lifetime: timedelta) -> str:
    """A token for ``holder``, whose name is in the registry's audit; ``private_key`` is an RSA key in PEM.

    Raises:
        InvalidConfiguration: it is not.
    """
    try:
        key = RSAKey.import_key(private_key)
    except (JoseError, ValueError, TypeError) as error:
        raise InvalidConfiguration("the key is not a private RSA key in PEM") from error
    claims = {
        "iss": "gitops-service",
        "sub": holder,
        "preferred_username": holder,
        "groups": [ROLES[role]],
        "iat": int(now.timestamp()),
        "exp": int((now + lifetime).timestamp()),
    }
    return jwt.encode({"alg": "RS256"}, claims, key)
