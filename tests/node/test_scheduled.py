"""What runs by the clock, as pods: each CronJob of ``k8s/`` is started once by hand, as an operator would."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from devstack.harness.hosted import HostedStack
from devstack.stack.node_addresses import NODE, POSTGRES, name_in_cluster
from tests.component.cli.object_store import Bucket, serving
from tests.node.kubectl import OURS, Kubectl

pytestmark = pytest.mark.short

BUCKET = "backups"
OVERLAY = """
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../k8s/backup]
components: [../overlay/release]
patches:
  - target: {kind: NetworkPolicy, name: to-backup-store}
    patch: |
      - {op: replace, path: /spec/egress/0, value: {to: [{ipBlock: {cidr: %(node)s/32}}], ports: [{port: %(port)s}]}}
  - target: {kind: CronJob, name: backup}
    patch: |
      - op: add
        path: /spec/jobTemplate/spec/template/spec/containers/0/env/-
        value: {name: AWS_ALLOW_HTTP, value: "true"}
"""


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    """Where pods reach it."""
    with serving(BUCKET, NODE) as running:
        yield running


@pytest.fixture
def backup(stack: HostedStack, kubectl: Kubectl, bucket: Bucket) -> Iterator[None]:
    """Its CronJob, with a database and a store."""
    folder = stack.state.root / "node" / "backup"
    folder.mkdir()
    port = urlsplit(bucket.url).port
    (folder / "kustomization.yaml").write_text(OVERLAY % {"node": NODE, "port": port})
    for name, values in {"database-backup": database(stack), "backup-store": store(bucket)}.items():
        kubectl.apply(secret(name, values))
    kubectl.run("apply", "--server-side", f"--kustomize={folder}")
    yield
    kubectl.run("delete", f"--kustomize={folder}")


def database(stack: HostedStack) -> dict[str, str]:
    """As pods see it, by the role of backups; in clear: all of it is on one machine."""
    password = stack.state.secrets()["backup"]
    return {
        "url": f"postgresql://gitops_backup:{password}@{name_in_cluster('postgres')}:{POSTGRES}/gitops?sslmode=disable"
    }


def store(bucket: Bucket) -> dict[str, str]:
    """As k8s/README.md has it."""
    names = ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    return {"BACKUP_STORE": f"s3://{BUCKET}/gitops"} | {name: bucket.environment[name] for name in names}


def secret(name: str, values: dict[str, str]) -> dict[str, object]:
    """Of our namespace."""
    meta = {"name": name, "namespace": OURS}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": values}


def run_once(kubectl: Kubectl, name: str) -> str:
    """What the pod of a CronJob's Job has printed at its end; the Job has to succeed."""
    job, where = f"{name}-now", f"--namespace={OURS}"
    kubectl.run("create", "job", job, where, f"--from=cronjob/{name}")
    try:
        kubectl.run("wait", where, f"job/{job}", "--for=condition=complete", "--timeout=90s")
        return kubectl.run("logs", where, f"job/{job}")
    except AssertionError as error:
        told = kubectl.attempt("describe", "pod", where, f"--selector=job-name={job}").stdout
        raise AssertionError(f"{error}\n{kubectl.attempt('logs', where, f'job/{job}').stdout}\n{told}") from None
    finally:
        kubectl.run("delete", "job", job, where)


@pytest.mark.usefixtures("backup")
def test_backup_when_its_job_runs_as_a_pod_then_the_store_has_an_archive(kubectl: Kubectl, bucket: Bucket) -> None:
    run_once(kubectl, "backup")
    written = bucket.keys()
    assert [key for key in written if key.startswith("gitops/") and bucket.content_of(key)]


def test_rotation_when_its_job_runs_as_a_pod_and_none_is_due_then_it_says_so(kubectl: Kubectl) -> None:
    before = keys(kubectl)
    told = run_once(kubectl, "key-rotation")
    assert "stays active" in told
    assert keys(kubectl) == before


def keys(kubectl: Kubectl) -> list[dict[str, str]]:
    """Of sealing, as they are stored."""
    places = [f"sealing-keys-{part}" for part in ("public", "private")]
    return [kubectl.get("secret", f"--namespace={OURS}", place)["data"] for place in places]
