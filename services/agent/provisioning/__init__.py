"""The provisioner: it installs Argo CD for the engine instances that are ordered with a version, and removes it again.

A process of its own beside the agents, with rights of its own: ``python -m services.agent.provisioning``. It follows
``gitops.fleet``; by itself it knows nothing. What an installation consists of comes with the release, one file of
rendered manifests for each version of Argo CD and configuration profile.
"""

PROVISIONER = "provisioner"
"""Name in logs, metrics and errors."""
