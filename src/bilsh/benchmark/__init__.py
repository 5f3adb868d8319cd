"""Side by side: bilsh, what a user would pick instead, and the limits of the machine, in one run.

``bilsh bench`` runs it (``--quick`` takes three minutes). Only ratios within one run mean anything:
contestants take turns, the smallest time of each counts, and the spread says how calm the machine was.
"""

from bilsh.benchmark.program import benchmark

__all__ = ["benchmark"]
