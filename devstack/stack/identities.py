"""As whom each service of the stack comes to the brokers, to the API server and to the database: nobody has more.

Rights are declared in ``services/common/kafka/acls.yaml``, ``k8s/rbac`` and the migrations; here are only names and
secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WORKSPACE = "local"
"""The one workspace cluster of a stack."""

ENGINE_CLUSTER = "default"
"""The engine cluster of a stack, or the first of two (``second_cluster.py``)."""

ACCOUNTS_NAMESPACE = "gitops-service"
"""Namespace of the service accounts in ``k8s/rbac``."""


@dataclass(frozen=True)
class Identity:
    """Who a service is."""

    principal: str = ""
    """In ``services/common/kafka/acls.yaml``; empty: it does not speak to the brokers."""
    account: str = ""
    """Service account; empty: it does not speak to the API server."""
    database_role: str = ""
    """Without its prefix ``gitops_``; empty: it has no database."""


IDENTITIES: Mapping[str, Identity] = {
    "watcher": Identity(principal=f"watcher-{WORKSPACE}", account="watcher"),
    "planner": Identity(principal="planner", database_role="planner"),
    "agent": Identity(principal=f"agent-{ENGINE_CLUSTER}", account="agent"),
    "target-provisioner": Identity(principal="target-provisioner"),
    "argocd-simulator": Identity(account="argocd-simulator"),
}
"""By service; several processes of one service are one."""

ACCOUNTS = tuple(identity.account for identity in IDENTITIES.values() if identity.account)

PRINCIPALS = (*(identity.principal for identity in IDENTITIES.values() if identity.principal), "connect")
"""Everybody who has a password at the brokers."""


def secret_names() -> tuple[str, ...]:
    """What a stack has to make up for them: ``kafka-<principal>`` and ``token-<account>``."""
    return (*(f"kafka-{name}" for name in PRINCIPALS), *(f"token-{name}" for name in ACCOUNTS))
