"""The two API groups of the kinds, and what they share by name."""

from __future__ import annotations

GROUP = "managed-gitops.redhat.com"
"""API group of the core kinds."""
APPSTUDIO_GROUP = "appstudio.redhat.com"
"""API group of the kinds about applications, their environments and promotions."""
APPSTUDIO_LABELS = "appstudio.openshift.io"
"""Prefix of AppStudio's label keys; ours have this domain."""
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

FINALIZER = "resources-finalizer.managed-gitops.redhat.com"
"""Users add it to a resource that should stay until everything it requested is gone."""


def is_appstudio_label(key: str) -> bool:
    """Whether a label with this key is one of AppStudio's."""
    return APPSTUDIO_LABELS in key
