"""The two API groups of the kinds, and what they share by name."""

from __future__ import annotations

GROUP = "managed-gitops.redhat.com"
"""Of the core kinds."""
APPSTUDIO_GROUP = "appstudio.redhat.com"
"""Of the kinds that speak of applications, their environments and promotions."""
APPSTUDIO_LABELS = "appstudio.openshift.io"
"""Part of the keys of labels that say what something is of in AppStudio; the domain of ours."""
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

FINALIZER = "resources-finalizer.managed-gitops.redhat.com"
"""Put on a resource by users who want it to stay until what it asked for is gone."""


def is_appstudio_label(key: str) -> bool:
    """Whether a label with this key is one of AppStudio's."""
    return APPSTUDIO_LABELS in key
