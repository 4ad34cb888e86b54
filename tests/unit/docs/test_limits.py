"""The limits that users read about are those that the services have by default."""

from __future__ import annotations

import re

from services.common.paths import USER_DOCS
from services.planner.kinds.limits import MEBIBYTE, Limits
from services.watcher.settings import WatcherSettings

KIBIBYTE = 1024


def test_limits_when_users_read_of_them_then_they_are_the_defaults() -> None:
    limits = Limits()
    default = {name: field.default for name, field in WatcherSettings.model_fields.items()}
    assert _told() == {
        "GitOpsDeployments": str(limits.deployments),
        "GitOpsDeploymentManagedEnvironments": str(limits.environments),
        "namespaces that all environments list together": str(limits.destinations),
        "GitOpsDeploymentRepositoryCredentials": str(limits.credentials),
        "GitOpsDeploymentSyncRuns": str(limits.sync_runs),
        "Secrets of the two types": str(limits.secrets),
        "all specs and Secrets together": f"{limits.bytes // MEBIBYTE} MiB",
        "one spec": f"{default['max_spec_bytes'] // KIBIBYTE} KiB",
        "one Secret": f"{default['max_secret_bytes'] // KIBIBYTE} KiB",
        "changes, in the long run": f"{default['tenant_changes_per_second']} per second",
        "changes, at once": str(default["tenant_change_burst"]),
    }


def _told() -> dict[str, str]:
    text = (USER_DOCS / "tenancy.md").read_text()
    _, _, table = text.partition("| limit, per namespace | default |\n| --- | --- |\n")
    return dict(re.findall(r"^\| (.+?) \| (.+?) \|$", table.partition("\n\n")[0], re.MULTILINE))
