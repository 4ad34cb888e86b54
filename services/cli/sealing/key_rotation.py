"""Rotates sealing keys that lie in two Secrets of a cluster. Called by :mod:`keys`, most often in a CronJob.

Each call looks at what is there and does one step at most, so a call may end anywhere, come twice or not at all:

    1. The active key is too old: a new one is added to the agents' Secret.     Sealed with the former one as before.
    2. It has been there so long that every agent has read it: it becomes the active one of the watchers' Secret.

Between the two nothing is sealed under a key that an agent lacks.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from joserfc.jwk import ECKey

from services.common.errors import GitOpsError, InvalidConfiguration, NoPermission, Unavailable
from services.common.kubernetes import SECRET, KubeClient, Manifest, NotFound, Rejected, connect
from services.common.sealing import active_ids, cluster_of_file, generate_key, jwk_set, key_age_seconds, parse_keys

FIELD_MANAGER = "gitopsctl"
PRIVATE, PUBLIC, FILE = "sealing-keys-private", "sealing-keys-public", "keys.json"
"""Names of the Secrets, and of the key in them, as in k8s/README.md."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When keys change."""

    older_than: timedelta
    """Of the active key."""
    settled: timedelta
    """So old is a key that every agent has."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """What is to be written; None stays as it is."""

    summary: str
    private: Mapping[str, ECKey] | None = None
    public: Mapping[str, ECKey] | None = None


def next_rotation(
    private: Mapping[str, ECKey], public: Mapping[str, ECKey], now: float, schedule: Schedule
) -> Rotation:
    """The step that is due at ``now``, a POSIX timestamp; public keys of other engine clusters stay as they are.

    Raises InvalidConfiguration if agents lack the key that watchers seal with.
    """
    active = _active(public, private)
    ages = {key_id: key_age_seconds(key, now) for key_id, key in private.items()}
    newest = min(ages, key=lambda key_id: (ages[key_id], key_id != active))
    if newest != active:
        of_others = {key_id: key for key_id, key in public.items() if key_id not in private}
        if ages[newest] < schedule.settled.total_seconds():
            return Rotation(f"{newest} waits until every agent has it")
        return Rotation(f"{newest} is active", public={newest: private[newest]} | dict(private) | of_others)
    if ages[active] < schedule.older_than.total_seconds():
        return Rotation(f"{active} is {timedelta(seconds=int(ages[active]))} old and stays active")
    added = generate_key(cluster_of_file(private))
    return Rotation(f"{added.kid} is new, for agents", private=dict(private) | {str(added.kid): added})


async def rotate_secrets(kubeconfig: Path | None, namespace: str, now: float, schedule: Schedule) -> str:
    """Carry out the step that is due; returns what was done. Raises StartupError."""
    try:
        async with await connect(kubeconfig) as kube:
            opening, sealing = await asyncio.gather(
                *(kube.get_object(SECRET, namespace, name) for name in (PRIVATE, PUBLIC))
            )
            private, public = _keys(opening, private=True), _keys(sealing, private=False)
            rotation = next_rotation(private, public, now, schedule)
            if rotation.private is not None:
                await _write(kube, opening, jwk_set(rotation.private, private=True))
            if rotation.public is not None:
                await _write(kube, sealing, jwk_set(rotation.public, private=False))
    except NotFound as error:
        raise InvalidConfiguration(str(error)) from error
    except Rejected as error:
        raise NoPermission(str(error)) from error
    except InvalidConfiguration:
        raise
    except GitOpsError as error:
        raise Unavailable(str(error)) from error
    return rotation.summary


def _active(public: Mapping[str, ECKey], private: Mapping[str, ECKey]) -> str:
    """Id of the key that watchers seal with for the agents that have the private keys."""
    try:
        cluster = cluster_of_file(private)
    except ValueError as error:
        raise InvalidConfiguration(f"{PRIVATE}: {error}") from None
    active = active_ids(public).get(cluster)
    if active is None:
        raise InvalidConfiguration(f"{PUBLIC} has no key of engine cluster {cluster or '(none)'}, as {PRIVATE} has")
    if active not in private:
        raise InvalidConfiguration(f"{PRIVATE} lacks {active}, which {PUBLIC} seals with")
    return active


def _keys(secret: Manifest, *, private: bool) -> dict[str, ECKey]:
    try:
        return parse_keys(base64.b64decode(secret["data"][FILE]), private=private)
    except KeyError:
        reason = "is missing"
    except ValueError as error:
        reason = str(error)
    raise InvalidConfiguration(f"{FILE} of Secret {secret['metadata']['name']}: {reason}")


async def _write(kube: KubeClient, secret: Manifest, text: bytes) -> None:
    """Unless the Secret has changed since it was read."""
    meta = secret["metadata"]
    patch = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]},
        {"op": "replace", "path": f"/data/{FILE}", "value": base64.b64encode(text + b"\n").decode()},
    ]
    await kube.patch_object(SECRET, meta["namespace"], meta["name"], patch, field_manager=FIELD_MANAGER)
