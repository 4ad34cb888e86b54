"""The steps of a plan: ``(PlannedTenant, Context) -> PlannedTenant``. ``plan.py`` has their order."""
