"""Removals that were refused for being so many, and how operators approve them."""
