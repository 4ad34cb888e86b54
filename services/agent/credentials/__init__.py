"""Turns recipes into Argo CD Secrets: opens sealed content, checks it against the real server, composes the Secret.

Other packages import ``check_result``, the interface, and the classes that run checks in the background. A tenant's
Secret and the answers of a tenant's server are untrusted: see ``clusters.kubeconfig`` (what is refused in a kubeconfig)
and ``network.https`` (how to connect to an address that somebody else chose).
"""
