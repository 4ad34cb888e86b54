"""The objects of an engine instance: kinds, keys, desired and live objects. All other folders of the agent use it."""
