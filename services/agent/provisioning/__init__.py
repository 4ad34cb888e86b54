"""The provisioner: installs Argo CD for engine instances that are ordered with a version, and removes it.

It is a process of its own, with its own rights: ``python -m services.agent.provisioning``. It follows ``gitops.fleet``.
The contents of an installation come with the release: one file of rendered manifests for each version of Argo CD and
configuration profile.
"""

PROVISIONER = "provisioner"
"""Name in logs, metrics and errors."""
