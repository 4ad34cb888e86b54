"""An engine instance that is ill: its tenants go on elsewhere."""
