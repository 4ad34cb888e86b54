"""What follows from the AppStudio kinds: a step of the plan per kind, each in a file of its own.

``plan.py`` calls the steps so that each comes after the steps that it needs: claims, environments, bindings,
promotions. All have the form of every step, from the tenant as planned so far and the context to the tenant with what
follows:

1. *Concerned.* If nothing that the rules read differs from before the batch, the step ends after a few comparisons.
   ``TenantState.plain_resources_of_kind`` returns the same object while no row of a kind differs.
2. *Read.* The tenant's rows become the values that the rules of the kind take (``services/kinds/<kind>/rules.py``),
   which know nothing of rows.
3. *Decided.* The rules return what the resource wants, and what is wrong with it.
4. *Stored.* ``outcomes.py`` writes that to the tenant's rows: child objects, the problem, and the time at which the
   resource is due again. A status is compiled from these rows, at the end of the plan, as for all kinds.

The steps of the core kinds come first, although environments contain deployments. A child object is a custom resource
that a watcher makes and reports, so what follows from it comes with a later batch in any case.
"""
