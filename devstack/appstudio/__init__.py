"""Plays the services of AppStudio that are not ours, for tests and the demo: who builds, and who makes namespaces."""
