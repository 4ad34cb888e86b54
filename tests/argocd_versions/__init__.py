"""Two real Argo CDs of different versions beside each other: a rollout brings tenants from one to the other."""
