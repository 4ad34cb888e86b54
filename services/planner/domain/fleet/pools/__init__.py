"""Instances that come and go as their load asks for, and how one that is installed becomes ready. Pure."""
