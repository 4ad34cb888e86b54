"""Turns recipes into Argo CD Secrets: opens what is sealed, checks it against the real server, composes the Secret.

Other packages import ``check_result``, the interface, and the classes that run checks in the background. Everything in
a tenant's Secret and every answer of a tenant's server is untrusted: see ``clusters.kubeconfig`` (what is refused in a
kubeconfig) and ``network.https`` (how a connection is made to an address that somebody else chose).
"""
