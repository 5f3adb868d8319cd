"""Every figure of the paper, measured again, and what came after: tables, pictures, one report.

``bilsh reproduce all --quick`` makes everything offline in minutes, ``--full`` at the paper's sizes. Each
figure has a module: a pure function configuration -> tables, a plot and findings that read only the tables.
"""

from bilsh.experiments.base import Experiment, Finding, tables_of
from bilsh.experiments.figures import FIGURES, Outcome, reproduce
from bilsh.experiments.inputs import Inputs
from bilsh.experiments.kept import publish

__all__ = ["FIGURES", "Experiment", "Finding", "Inputs", "Outcome", "publish", "reproduce", "tables_of"]
