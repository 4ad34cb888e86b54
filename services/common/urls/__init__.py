"""What a URL from a tenant may be: one set of rules for whoever decides and for whoever connects. Pure."""
