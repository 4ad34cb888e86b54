"""What follows from the AppStudio kinds: a step of the plan per kind, each in a file of its own.

``plan.py`` calls the steps in the order in which one needs the other: claims, environments, bindings, promotions. All
have the same form, from the tenant as planned so far to the tenant with what follows:

1. *Concerned.* Nothing that the rules look at differs from before the batch: the step is over, at the cost of a few
   comparisons. ``TenantState.plain_resources_of_kind`` returns the same object while no row of a kind differs.
2. *Seen.* The tenant's rows become the values that the rules of the kind take (``services/kinds/<kind>/rules.py``),
   which know nothing of rows.
3. *Decided.* The rules return what the resource wants, and what is wrong with it.
4. *Kept.* ``outcomes.py`` writes that to the tenant's rows: child objects, the problem, and when to look again. A
   status is compiled from these rows, at the end of the plan, as those of all kinds are.

The core kinds come first in a plan, though environments are their ground: a child object is a custom resource that a
watcher makes and tells of, so what follows from it comes with a later batch anyway.
"""
