"""Makes principals and their rights at the brokers agree with ``acls.yaml``; see ``gitopsctl topics``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from services.common.errors import GitOpsError, InvalidConfiguration, NoPermission, Retry
from services.common.kafka import Rights

REQUEST_SECONDS = 10.0
SCRAM_ITERATIONS = 8192
"""Between 4,096 and 16,384, says the broker. Passwords of machines are long and random: more would only cost time."""

EVERY_HOST = "*"
ANYTHING: Any = None
"""In a filter; its signature does not say so."""


def require_superuser(admin: AdminClient) -> None:
    """Raises NoPermission unless we may grant rights. Asked first: librdkafka does not survive every refusal."""
    answer = _wait_for(admin.describe_cluster(include_authorized_operations=True), "rights of our own")
    if AclOperation.ALTER not in (answer.authorized_operations or ()):
        raise NoPermission("only a superuser of the brokers may grant rights; come as operator")


def set_passwords(admin: AdminClient, passwords: Mapping[str, str]) -> None:
    """Give each principal its password, in place of a former one; connections that exist stay."""
    if not passwords:
        return
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, SCRAM_ITERATIONS)
    wanted: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(name, info, password.encode()) for name, password in passwords.items()
    ]
    outcomes = admin.alter_user_scram_credentials(wanted)
    for name, outcome in outcomes.items():
        _wait_for(outcome, f"password of {name}")


def set_rights(admin: AdminClient, rights: Mapping[str, Rights], *, keep: bool = False) -> tuple[int, int]:
    """Add rights that are missing; unless ``keep``, take away those that are not declared. Returns how many of each.

    Raises Retry until the broker itself sees the outcome: a principal that comes too early would be refused.
    """
    wanted = {binding for name, each in rights.items() for binding in _bindings(name, each)}
    present = {binding for name in rights for binding in _present(admin, name)}
    missing, superfluous = wanted - present, set() if keep else present - wanted
    _each(admin.create_acls, missing)
    _each(admin.delete_acls, [_exactly(binding) for binding in superfluous])
    if {binding for name in rights for binding in _present(admin, name)} != (present | wanted) - superfluous:
        raise Retry("the broker does not know all rights yet")
    return len(missing), len(superfluous)


def _bindings(name: str, rights: Rights) -> Iterable[AclBinding]:
    named: list[tuple[ResourceType, ResourcePatternType, Mapping[str, tuple[str, ...]]]] = [
        (ResourceType.TOPIC, ResourcePatternType.LITERAL, rights.topics),
        (ResourceType.TOPIC, ResourcePatternType.PREFIXED, rights.topic_prefixes),
        (ResourceType.GROUP, ResourcePatternType.LITERAL, rights.groups),
    ]
    for kind, pattern, operations_by_name in named:
        for resource, operations in operations_by_name.items():
            for operation in operations:
                yield AclBinding(
                    kind, resource, pattern, f"User:{name}", EVERY_HOST,
                    AclOperation[operation.upper()], AclPermissionType.ALLOW,
                )  # fmt: skip


def _present(admin: AdminClient, name: str) -> list[AclBinding]:
    everything = AclBindingFilter(
        ResourceType.ANY, ANYTHING, ResourcePatternType.ANY, f"User:{name}", ANYTHING,
        AclOperation.ANY, AclPermissionType.ANY,
    )  # fmt: skip
    bindings: list[AclBinding] = _wait_for(admin.describe_acls(everything), f"rights of {name}")
    return bindings


def _exactly(binding: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        binding.restype, binding.name, binding.resource_pattern_type, binding.principal, binding.host,
        binding.operation, binding.permission_type,
    )  # fmt: skip


def _each(call: Callable[[list[Any]], Mapping[Any, Future[Any]]], items: Iterable[Any]) -> None:
    for item, outcome in (call(listed) if (listed := list(items)) else {}).items():
        _wait_for(outcome, str(item))


def _wait_for(outcome: Future[Any], what: str) -> Any:
    """Wait for the outcome. Raises Retry if the brokers did not answer, InvalidConfiguration if they refused."""
    try:
        return outcome.result(timeout=REQUEST_SECONDS)
    except TimeoutError as error:
        raise Retry(f"{what}: no answer") from error
    except KafkaException as error:
        raise _refusal(error, what) from error


def _refusal(error: KafkaException, what: str) -> GitOpsError:
    reason = error.args[0]
    return (Retry if reason.retriable() else InvalidConfiguration)(f"{what}: {reason.str()}")
