"""Repositories that tenants name: logins, and Argo CD's repository Secrets."""
