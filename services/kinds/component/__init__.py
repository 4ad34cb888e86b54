"""Component: a part of an Application. The build service owns it; here count its name and whose it is."""
