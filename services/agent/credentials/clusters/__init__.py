"""Clusters that tenants bring: kubeconfigs, service accounts and Argo CD's cluster Secrets."""
