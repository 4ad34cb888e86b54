"""GitOps Service: custom resources of many tenants in, Argo CD configuration out, status back."""
