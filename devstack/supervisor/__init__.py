"""Runs processes: starts them in order, asks whether they are ready, and ends them."""
