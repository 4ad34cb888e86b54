"""What users do in their namespaces, an intruder in those of the engines, and an operator with the fleet.

Each says what shall be afterwards, not what was before, so that a plan from which some are taken away still makes
sense: what is to be put is made or changed, what is to be removed may be gone already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

UserKind = Literal[
    "deployment",
    "environment",
    "credential",
    "kubeconfig",
    "login",
    "key",
    "app environment",
    "binding",
    "claim",
    "target",
    "snapshot",
]
"""What a user may remove. Those from kubeconfig to key are Secrets."""
CustomKind = Literal["deployment", "environment", "credential"]
REFUSED_PATHS = ("/", "../outside")
"""Which CRDs take and GitOpsDeployments may not have."""
EngineKind = Literal["application", "project", "cluster-secret", "repository-secret"]


@dataclass(frozen=True, slots=True)
class PutDeployment:
    """A GitOpsDeployment with this spec."""

    tenant: int
    name: str
    repository: int
    path: str
    """One of a repository, or one that is refused."""
    revision: str
    automated: bool
    environment: str = ""
    """Empty: the own namespace."""
    creates_namespace: bool = False
    finalizer: bool = False
    afresh: bool = False
    """Deleted first: another resource of the same name."""


@dataclass(frozen=True, slots=True)
class PutEnvironment:
    """A GitOpsDeploymentManagedEnvironment for the stack's own API server."""

    tenant: int
    name: str
    namespaces: tuple[str, ...] = ()
    cluster_resources: bool = False
    creates_account: bool = False
    afresh: bool = False


@dataclass(frozen=True, slots=True)
class PutCredential:
    """A GitOpsDeploymentRepositoryCredential for a repository."""

    tenant: int
    name: str
    repository: int
    afresh: bool = False


@dataclass(frozen=True, slots=True)
class PutRefused:
    """A spec that the CRD refuses: what has the name stays as it is, or there is none."""

    tenant: int
    kind: CustomKind
    name: str


@dataclass(frozen=True, slots=True)
class PutKubeconfig:
    """The Secret of all environments of a tenant."""

    tenant: int
    token: int
    """Which of the tokens; one beyond those that there are is wrong."""


@dataclass(frozen=True, slots=True)
class PutLogin:
    """The Secrets of all credentials of a tenant: a name and a password, and a key of ssh."""

    tenant: int
    version: int


@dataclass(frozen=True, slots=True)
class AskForSync:
    """A GitOpsDeploymentSyncRun."""

    tenant: int
    name: str
    deployment: str


@dataclass(frozen=True, slots=True)
class PutAppEnvironment:
    """An Environment of AppStudio."""

    tenant: int
    name: str
    afresh: bool = False
    claim: str = ""
    """Whose target it is; empty: the tenant's own namespace."""
    parent: str = ""
    """The Environment from which automated promotions go on to it; empty: they do not."""


@dataclass(frozen=True, slots=True)
class PutClass:
    """Somebody who may, an operator, makes a DeploymentTargetClass reclaim targets otherwise from now on."""

    tenant: int
    """In whose turn; it is everybody's."""
    name: str
    policy: Literal["Delete", "Retain"]


@dataclass(frozen=True, slots=True)
class PutTarget:
    """A DeploymentTarget: a namespace of the stack's own API server."""

    tenant: int
    name: str
    class_name: str
    claim: str = ""
    """That it is kept for; empty: for whichever comes."""
    afresh: bool = False


@dataclass(frozen=True, slots=True)
class PutClaim:
    """A DeploymentTargetClaim."""

    tenant: int
    name: str
    class_name: str
    target: str = ""
    """That it wants; empty: whichever there is, or one that is made."""
    afresh: bool = False


@dataclass(frozen=True, slots=True)
class PutPreview:
    """An Environment on a claim of its own, with a binding, that is over soon. All have its name."""

    tenant: int
    name: str
    class_name: str
    snapshot: str
    components: tuple[str, ...]
    seconds: int
    """After its creation."""


@dataclass(frozen=True, slots=True)
class PutSnapshot:
    """A Snapshot of the tenant's application."""

    tenant: int
    name: str
    is_foreign: bool = False
    """Of an application that the tenant does not have, so that every promotion of it has to fail."""


@dataclass(frozen=True, slots=True)
class PutBinding:
    """A SnapshotEnvironmentBinding of the tenant's application."""

    tenant: int
    name: str
    environment: str
    snapshot: str
    components: tuple[str, ...]
    afresh: bool = False


@dataclass(frozen=True, slots=True)
class Promote:
    """A PromotionRun of the tenant's application."""

    tenant: int
    name: str
    environment: str
    snapshot: str
    automated: bool = False
    """On to the children of the environment, and theirs."""


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete one resource or Secret."""

    tenant: int
    kind: UserKind | Literal["run", "promotion"]
    name: str


@dataclass(frozen=True, slots=True)
class RemakeNamespace:
    """Delete a tenant's namespace with all that is in it, and make it again."""

    tenant: int


@dataclass(frozen=True, slots=True)
class Meddle:
    """Somebody with rights in the engine namespaces changes an object of ours."""

    tenant: int
    kind: EngineKind
    name: str
    """Of what the object was made for, a deployment, environment or credential; of a project it does not matter."""
    how: Literal["edit", "delete", "unlabel"]


@dataclass(frozen=True, slots=True)
class Forge:
    """Somebody makes an object in an engine namespace."""

    tenant: int
    """In whose turn; it is nobody's."""
    kind: EngineKind
    slot: int
    """There is at most one for each slot: too many would not be taken for orphans, but for a fault."""
    ours: bool
    """With the label by which agents know what is theirs to delete."""


@dataclass(frozen=True, slots=True)
class MoveTenant:
    """An operator has a tenant go to the engine instance that it is not on, and may take that back."""

    tenant: int
    cancelled_after: float | None = None
    """Seconds after the order, until which a move that waits for nothing may be over; None: it is not taken back."""


@dataclass(frozen=True, slots=True)
class DrainInstance:
    """An operator has all tenants of an engine instance go elsewhere, and no new one come."""

    tenant: int
    """In whose turn; it is everybody's."""
    instance: int


@dataclass(frozen=True, slots=True)
class UndrainInstance:
    """An operator has tenants come to an engine instance again: new ones, and as many as make its share."""

    tenant: int
    """In whose turn; it is everybody's."""
    instance: int


@dataclass(frozen=True, slots=True)
class ReplaceInstance:
    """An operator gives an engine instance up once all tenants have left it, and adds another one in its namespace."""

    tenant: int
    """In whose turn; it is everybody's."""
    instance: int


UserOperation = (
    PutDeployment
    | PutEnvironment
    | PutCredential
    | PutRefused
    | PutKubeconfig
    | PutLogin
    | AskForSync
    | PutAppEnvironment
    | PutClass
    | PutTarget
    | PutClaim
    | PutPreview
    | PutSnapshot
    | PutBinding
    | Promote
    | Remove
    | RemakeNamespace
)
FleetOperation = MoveTenant | DrainInstance | UndrainInstance | ReplaceInstance
Operation = UserOperation | FleetOperation | Meddle | Forge
OPERATIONS: tuple[type[Operation], ...] = get_args(Operation)
