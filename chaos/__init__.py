"""Chaos suite: many random changes, faults meanwhile, and a proof afterwards that nothing was lost.

``plan/`` makes of a seed the list of operations and faults, pure. ``execution/`` carries it out against a running stack
and records what the API server has acknowledged. ``checker/`` reads what there is then, resources and Argo CD's objects
alone, and says what is not as it must be; it shares no code with what decides that in the product. ``shrink`` finds the
part of a plan that a failure needs.
"""
