"""From ``gitops.engine`` to desired state: consumption, decoding and acknowledgement of rows."""
