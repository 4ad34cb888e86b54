"""What an engine instance holds: kinds, keys, desired and live objects. All other folders of the agent build on it."""
