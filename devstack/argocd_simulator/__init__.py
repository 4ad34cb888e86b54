"""Plays Argo CD where thousands of Applications are needed, or Argo CD itself is not: tests at scale, the local stack.

Never part of an installation. It deploys nothing: it writes the status that Argo CD would write, honours its
finalizers and runs its operations, against a real API server. Git is never asked: a revision is a hash of the
repository's URL and the target revision, unless it is one already. Paths beginning with ``simulate/`` ask for what
can go wrong:

  simulate/degraded           synced, but unhealthy
  simulate/comparison-error   a ComparisonError condition instead of a sync
  simulate/stuck-deletion     the finalizer is never removed
  simulate/slow-sync          a sync that runs until it is terminated
  simulate/failing-sync       a sync that fails
  simulate/silent             no status, ever
"""

SERVICE = "argocd-simulator"
"""Our name in logs, metrics and dead letters."""
