"""From the engine cluster's topic to desired state: consumes, decodes and acknowledges rows."""
