"""GitOps engines: what each holds for a tenant, in its own words, behind one interface. No I/O."""
