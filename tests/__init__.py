"""Tests, by what they need: nothing (unit), single parts (component), the whole (stack, e2e, argocd)."""
