"""How good a code is: exact neighbours, ground truth, precision-recall, average precision, recall.

The way of the numbers: :func:`ground_truth` draws queries and finds their true neighbours in the original
space; :func:`rank_codes` (or :func:`rank_scores`) orders the database for every query and keeps only what the
measures need, the counts per group of ties; :func:`precision_recall`, :func:`mean_average_precision` and
:func:`recall_at_k` read those counts. Hamming distances tie often, so every measure is the exact expectation
over a random order within each tie: no code gains or loses by the order in which items were stored.
"""

from bilsh.evaluation.measures import (
    PrecisionRecall,
    Ranking,
    average_precision,
    mean_average_precision,
    precision_recall,
    rank_codes,
    rank_scores,
    recall_at_k,
    recall_of_ids,
)
from bilsh.evaluation.truth import GroundTruth, Neighborhoods, exact_neighbors, exact_within, ground_truth

__all__ = [
    "GroundTruth",
    "Neighborhoods",
    "PrecisionRecall",
    "Ranking",
    "average_precision",
    "exact_neighbors",
    "exact_within",
    "ground_truth",
    "mean_average_precision",
    "precision_recall",
    "rank_codes",
    "rank_scores",
    "recall_at_k",
    "recall_of_ids",
]
