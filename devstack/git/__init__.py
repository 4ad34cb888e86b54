"""Git servers of the local stack, for Argo CD and our agents to fetch from: over https and over ssh."""
