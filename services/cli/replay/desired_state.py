"""What a database says that is desired: specs in force, and the objects that engines shall hold. As documents.

What is sealed stays sealed, and is not shown either: sealed twice, the same content is another text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import unified_diff
from typing import Any, NamedTuple

import orjson
import yaml
from psycopg import Connection

from services.common.api_resource import SECRET
from services.common.json_values import dict_of
from services.common.messages import ORDERS
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.sync_run.model import SYNC_RUN
from services.planner.rows.tenants import TenantName

SEALED = "(sealed)"
CONTEXT_LINES = 3

# Runs are orders, and no state; of Secrets is shown what is made of them.
RESOURCES = """
SELECT t.workspace || '/' || t.namespace, %(deployment)s AS kind, d.name, d.uid, d.generation, d.spec,
       concat(d.error, d.pending_reason)
  FROM deployments d JOIN tenants t ON t.id = d.tenant_id
 WHERE d.present AND t.former_since = 0 AND (%(tenant)s IN ('', t.workspace || '/' || t.namespace))
 UNION ALL
SELECT t.workspace || '/' || t.namespace, r.kind, r.name, r.uid, r.generation, nullif(r.accepted, ''),
       coalesce(nullif(r.refusal, '')::json ->> 'message', '')
  FROM resources r JOIN tenants t ON t.id = r.tenant_id
 WHERE r.present AND t.former_since = 0 AND NOT r.kind = ANY(%(others)s)
   AND (%(tenant)s IN ('', t.workspace || '/' || t.namespace))
"""
OBJECTS = """
SELECT workspace || '/' || tenant_namespace, kind, name, engine_instance_id, manifest
  FROM engine_resources
 WHERE desired = 'present' AND NOT kind = ANY(%(orders)s)
   AND (%(tenant)s IN ('', workspace || '/' || tenant_namespace))
"""


class Subject(NamedTuple):
    """What a document is about: a custom resource, or an object of an engine."""

    tenant: str
    """Workspace and namespace."""
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.tenant}: {self.kind}/{self.name}"


Documents = Mapping[Subject, Mapping[str, Any]]


def read_documents(connection: Connection[Any], tenant: TenantName | None) -> Documents:
    """All that is desired, or what is of one tenant, in order: of custom resources the specs in force."""
    values = {
        "tenant": "/".join(tenant) if tenant is not None else "",
        "deployment": GITOPS_DEPLOYMENT.kind,
        "others": [SECRET.kind, SYNC_RUN.kind],
        "orders": list(ORDERS),
    }
    found: dict[Subject, Mapping[str, Any]] = {}
    for *subject, uid, generation, spec, problem in connection.execute(RESOURCES, values):
        in_force = orjson.loads(spec) if spec is not None else None
        problems = {"problem": problem} if problem else {}
        found[Subject(*subject)] = {"uid": uid, "generation": generation, "specInForce": in_force} | problems
    for *subject, instance, manifest in connection.execute(OBJECTS, values):
        found[Subject(*subject)] = {"instance": instance, "manifest": without_sealed(orjson.loads(manifest))}
    return dict(sorted(found.items()))


def without_sealed(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """``manifest`` without the sealed values of a recipe; their names and version stay."""
    recipe = dict_of(manifest.get("recipe"))
    if not (secret := dict_of(recipe.get("secret"))):
        return manifest
    hidden = {name: SEALED for name in ("sealed", "binding") if name in secret}
    return {**manifest, "recipe": {**recipe, "secret": {**secret, **hidden}}}


def differing(then: Documents, now: Documents) -> list[Subject]:
    """What is not the same in both, in order."""
    return sorted(each for each in {*then, *now} if then.get(each) != now.get(each))


def diff_lines(then: Documents, now: Documents) -> Iterator[str]:
    """How ``now`` differs, as a unified diff for each subject. Tenants' characters reach no terminal as they are."""
    for subject in differing(then, now):
        before, after = (_lines(documents.get(subject)) for documents in (then, now))
        yield from unified_diff(before, after, f"{subject} then", f"{subject} now", n=CONTEXT_LINES, lineterm="")


def _lines(document: Mapping[str, Any] | None) -> list[str]:
    if document is None:
        return []
    return yaml.safe_dump(dict(document), sort_keys=True, allow_unicode=False, width=1000).splitlines()
