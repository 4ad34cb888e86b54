"""Status objects, word for word as API servers send them; ``tests/component/api`` holds them against a real one."""

from __future__ import annotations

SECRET_GONE = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"secrets \\"kube\\" not found",'
    b'"reason":"NotFound","details":{"name":"kube","kind":"secrets"},"code":404}\n'
)
CUSTOM_RESOURCE_GONE = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"gitopsdeployments.managed-gitops.redhat.com \\"web\\" not found","reason":"NotFound",'
    b'"details":{"name":"web","group":"managed-gitops.redhat.com","kind":"gitopsdeployments"},"code":404}\n'
)
NAMESPACE_GONE = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"namespaces \\"team-a\\" not found","reason":"NotFound",'
    b'"details":{"name":"team-a","kind":"namespaces"},"code":404}\n'
)
KIND_NOT_SERVED = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}\n'
)
NOT_FOUND_PAGE = b"404 page not found\n"
NAMESPACE_TERMINATING = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"gitopsdeployments.managed-gitops.redhat.com \\"web\\" is forbidden: unable to create new content in '
    b'namespace team-a because it is being terminated","reason":"Forbidden",'
    b'"details":{"name":"web","group":"managed-gitops.redhat.com","kind":"gitopsdeployments",'
    b'"causes":[{"reason":"NamespaceTerminating","message":"namespace team-a is being terminated",'
    b'"field":"metadata.namespace"}]},"code":403}\n'
)
FORBIDDEN = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"secrets \\"kube\\" is forbidden: User \\"being terminated\\" cannot get resource \\"secrets\\" in API '
    b'group \\"\\" in the namespace \\"team-a\\"","reason":"Forbidden",'
    b'"details":{"name":"kube","kind":"secrets"},"code":403}\n'
)
