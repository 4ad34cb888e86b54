"""Where a new tenant goes, what operators have assigned, and how load is measured. Pure."""
