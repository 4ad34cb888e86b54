"""The git servers that Argo CD and our agents fetch from: one over https, one over ssh."""

from __future__ import annotations

import sys

from devstack.components.stack import Stack
from devstack.supervisor.health_checks import http, says
from devstack.supervisor.process import Node, Process


def nodes(stack: Stack) -> list[Node]:
    """Both, which serve the same repositories."""
    site = stack.git_site()

    async def prepare() -> None:
        site.prepare()

    https = Process(
        name="git-https",
        argv=(sys.executable, "-m", "devstack.git.https_server", str(site.folder), str(site.https_port)),
        env=stack.base_environment() | {"GIT_PASSWORD": site.password},
        ports={"https": site.https_port},
        ready=http(site.https_port, "/healthz", site.pki.authority),
        prepare=prepare,
    )
    ssh = Process(
        name="git-ssh",
        argv=(sys.executable, "-m", "devstack.git.ssh_server", str(site.folder), str(site.ssh_port)),
        env=stack.base_environment() | {"GIT_PASSWORD": site.password},
        ports={"ssh": site.ssh_port},
        ready=says(site.ssh_port, b"", b"SSH-2.0-"),
        # It uses the same keys, which shall not be made twice at a time.
        depends_on=("git-https",),
        prepare=prepare,
    )
    return [https, ssh]
