"""``gitopsctl keys``: the keys that Secrets are sealed with. Watchers hold public ones, agents private ones.

Rotating, without a restart and without a moment in which something cannot be opened: ``rotate``; bring the private
file to every agent, then the public file to every watcher; they seal anew what they see. ``reseal`` what ``status``
still shows under the old key, and ``retire`` it.

The agents of each engine cluster may have keys of their own: a private file for each cluster, and one public file for
all watchers, in which keys name their cluster.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import typer
from joserfc.jwk import ECKey
from pydantic import TypeAdapter, ValidationError

from services.cli import sending
from services.cli.database_connection import TIMEOUT, URL
from services.cli.output import OUTPUT, Output, print_rows, tell
from services.cli.sealing import key_rotation, sealed_rows
from services.common.errors import InvalidConfiguration
from services.common.kafka import ENGINE_CLUSTER_NAME
from services.common.sealing import (
    OpeningKeys,
    SealingKeys,
    active_ids,
    cluster_of,
    cluster_of_file,
    generate_key,
    key_age_seconds,
    parse_keys,
    write_keys,
)
from services.common.settings import KafkaSettings, load
from services.common.startup import await_dependency

app = typer.Typer(help="Keys that Secrets are sealed with.", no_args_is_help=True)

PRIVATE = typer.Option(..., "--private", envvar="SEALING_PRIVATE_KEYS", help="JWK set of the agents' private keys.")
PUBLIC = typer.Option(..., "--public", envvar="SEALING_PUBLIC_KEYS", help="JWK set of the public keys.")
IF_MISSING = typer.Option(False, "--if-missing", help="Do nothing, and succeed, if both files are there.")
CLUSTER = typer.Option(
    "", "--engine-cluster", metavar="ID", help="Whose agents alone get the private file; all if left out."
)
STATUS_COLUMNS = {
    "key": "key",
    "engineCluster": "engine cluster",
    "active": "active",
    "secrets": "Secrets",
    "bindings": "bindings",
    "compiled": "compiled objects",
    "parked": "parked events",
}
KEY_ID = typer.Argument(..., help="Id of the key.")


@app.command()
def generate(
    private: Path = PRIVATE, public: Path = PUBLIC, engine_cluster: str = CLUSTER, if_missing: bool = IF_MISSING
) -> None:
    """Make the first pair of keys, of all agents or of an engine cluster's. Refuses to overwrite any.

    The public key of a cluster is added to the public file, if there is one.
    """
    if if_missing and private.exists() and public.exists():
        return
    for path in (private,) if engine_cluster else (private, public):
        if path.exists():
            raise InvalidConfiguration(f"{path} exists; what is sealed under its keys needs them: 'rotate' adds one")
    added = _new_key(engine_cluster)
    before = _keys(public, private=False) if public.exists() else {}
    if engine_cluster in active_ids(before):
        raise InvalidConfiguration(f"{public} has a key of engine cluster {engine_cluster}: 'rotate' adds one")
    _write(private, added, public, before | added)


def _duration(value: Any) -> timedelta:
    """The duration that an option gives."""
    try:
        return TypeAdapter(timedelta).validate_python(value)
    except ValidationError:
        raise typer.BadParameter("an ISO 8601 duration such as P90D") from None


def _duration_option(default: str | None, *names: str, text: str) -> Any:
    return typer.Option(default, *names, parser=_duration, metavar="DURATION", help=f"{text}; ISO 8601, such as P90D.")


IF_OLDER = _duration_option(None, "--if-older-than", text="Do nothing, and succeed, if the active key is younger")
SETTLED = _duration_option("PT15M", "--settled-after", text="How old a key is that every agent has read")
NAMESPACE = typer.Option(..., "--namespace", help="Where the Secrets are.")
KUBECONFIG = typer.Option(None, envvar="KUBECONFIG", help="Of their cluster; the pod's service account if left out.")


@app.command()
def rotate(
    private: Path = PRIVATE,
    public: Path = PUBLIC,
    engine_cluster: str = CLUSTER,
    if_older_than: timedelta | None = IF_OLDER,
) -> None:
    """Add a key and make it the active one. The former ones still open what they sealed.

    It is of the engine cluster that the private keys name. With --engine-cluster keys that name none begin to.
    """
    keys = _keys(private, private=True)
    before = _keys(public, private=False) if public.exists() else keys
    cluster = _cluster_of(private, keys)
    if cluster and engine_cluster not in {"", cluster}:
        raise InvalidConfiguration(f"{private} has keys of engine cluster {cluster}; {engine_cluster} has its own file")
    cluster = cluster or engine_cluster
    active = active_ids(before).get(cluster)
    if if_older_than is not None and active is not None:
        age = key_age_seconds(before[active], time.time())
        if age < if_older_than.total_seconds():
            typer.echo(f"keys: the active key is {timedelta(seconds=int(age))} old and stays")
            return
    added = _new_key(cluster)
    _write(private, keys | added, public, added | before | keys)


@app.command("rotate-secrets")
def rotate_secrets(
    namespace: str = NAMESPACE,
    if_older_than: timedelta = _duration_option("P90D", "--if-older-than", text="How old the active key may become"),  # noqa: B008 - typer's way
    settled_after: timedelta = SETTLED,
    kubeconfig: Path | None = KUBECONFIG,
) -> None:
    """Rotate keys that lie in Secrets, one step at each call: run it every hour, as k8s/key-rotation does."""
    schedule = key_rotation.Schedule(older_than=if_older_than, settled=settled_after)
    summary = asyncio.run(key_rotation.rotate_secrets(kubeconfig, namespace, time.time(), schedule))
    typer.echo(f"keys: {summary}")


@app.command()
def retire(
    key_id: str = KEY_ID,
    private: Path = PRIVATE,
    public: Path = PUBLIC,
    url: str = URL,
    timeout: float = TIMEOUT,
) -> None:
    """Delete a key. Refuses while anything is sealed under it: nobody could open that any more."""
    keys, sealing = _keys(private, private=True), _keys(public, private=False)
    if key_id not in keys:
        raise InvalidConfiguration(f"{private} has no key {key_id}; it has {', '.join(keys)}")
    active = active_ids(sealing)
    if key_id in active.values() and (cluster_of(keys[key_id]) or len(active) == 1):
        raise InvalidConfiguration(f"{key_id} is the active key; 'rotate' first")
    sealed = await_dependency("database", lambda: sealed_rows.count_by_key(url), timeout).get(key_id)
    if sealed is not None and sealed.total:
        parked = f", and {sealed.parked} of them wait for parked tenants" if sealed.parked else ""
        raise InvalidConfiguration(f"{sealed.total} rows are sealed under {key_id}; 'reseal' first{parked}")
    _write(private, _without(keys, key_id), public, _without(sealing, key_id))


@app.command()
def status(
    public: Path | None = typer.Option(None, envvar="SEALING_PUBLIC_KEYS"),  # noqa: B008 - typer's way
    url: str = URL,
    output: Output = OUTPUT,
) -> None:
    """Show how much is sealed under which key."""
    counts = await_dependency("database", lambda: sealed_rows.count_by_key(url), 30)
    sealing = _keys(public, private=False) if public else {}
    active = active_ids(sealing).values()
    rows = [
        {"key": key_id, "engineCluster": cluster_of(sealing[key_id]) if key_id in sealing else ""}
        | {"active": key_id in active}
        | asdict(count)
        for key_id, count in sorted(counts.items())
    ]
    print_rows(rows, STATUS_COLUMNS, output, nothing="nothing is sealed")
    if unbound := await_dependency("database", lambda: sealed_rows.count_unbound(url), 30):
        tell(f"keys: {unbound} compiled objects have no binding: agents refuse them until a watcher makes one")


@app.command()
def reseal(private: Path = PRIVATE, public: Path = PUBLIC, url: str = URL, timeout: float = TIMEOUT) -> None:
    """Seal under the active key what is sealed under another, through the log of commands like every change.

    For Secrets, and bindings to what they may be used for, that no watcher sees at the moment: a watcher seals anew by
    itself. Opens them, so it is run where the private keys may be. It makes no bindings: only a watcher can. With the
    private keys of an engine cluster it does so for the tenants of that cluster, and for what is still sealed for it of
    those that have left it.
    """
    opening, sealing, settings = OpeningKeys.load(private), SealingKeys.load(public), load(KafkaSettings)
    cluster = _cluster_of(private, opening.current())
    stored = await_dependency("database", lambda: sealed_rows.stored_rows(url), timeout)
    rows = sealed_rows.rows_to_reseal(stored, sealing, cluster)
    commands, failures = sealed_rows.all_resealed(rows, opening, sealing)
    if commands:
        sending.send_commands(settings, commands)
    secrets = sum(row.is_secret for row in rows)
    bindings = len(rows) - secrets
    active = ", ".join(sorted(sealing.active_ids.values()))
    typer.echo(f"keys: {len(commands)} of {secrets} Secrets and {bindings} bindings sent under {active}")
    if failures:
        raise InvalidConfiguration("; ".join([f"{len(failures)} do not open", *failures]))


def _new_key(engine_cluster: str) -> dict[str, ECKey]:
    if engine_cluster and not re.fullmatch(ENGINE_CLUSTER_NAME, engine_cluster):
        raise InvalidConfiguration(f"'{engine_cluster}' cannot be an engine cluster: it has to be a DNS label")
    key = generate_key(engine_cluster)
    return {str(key.kid): key}


def _cluster_of(path: Path, keys: Mapping[str, ECKey]) -> str:
    """The engine cluster whose agents have the private keys of this file."""
    try:
        return cluster_of_file(keys)
    except ValueError as error:
        raise InvalidConfiguration(f"{path}: {error}") from None


def _without(keys: Mapping[str, ECKey], key_id: str) -> dict[str, ECKey]:
    return {each: key for each, key in keys.items() if each != key_id}


def _keys(path: Path, *, private: bool) -> dict[str, ECKey]:
    try:
        return parse_keys(path.read_bytes(), private=private)
    except OSError as error:
        raise InvalidConfiguration(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise InvalidConfiguration(f"{path}: {error}") from None


def _write(private: Path, opening: Mapping[str, ECKey], public: Path, sealing: Mapping[str, ECKey]) -> None:
    """Private keys first: nothing may be sealed under a key that nobody has."""
    try:
        write_keys(private, opening, private=True)
        write_keys(public, sealing, private=False)
    except OSError as error:
        raise InvalidConfiguration(f"cannot write {error.filename}: {error.strerror}") from error
    for cluster, active in active_ids(sealing).items():
        of_cluster = f" for engine cluster {cluster}" if cluster else ""
        typer.echo(f"keys: {active} is active{of_cluster}, of {len(sealing)}")
