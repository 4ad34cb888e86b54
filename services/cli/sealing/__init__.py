"""The keys that Secrets are sealed with, and what is sealed with them."""
