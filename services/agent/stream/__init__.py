"""From the engine cluster's topic to desired state: consumption, decoding and acknowledgement of rows."""
