"""The fleet: placement, moves, pools, rollouts, remediation, what agents report, and operators' orders about them.

Pure.
"""
