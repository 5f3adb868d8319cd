"""Data to work on: two classics by name, files of the usual formats, folders of images, synthetic matrices.

Large files are memory-mapped, sizes that a header declares are checked against the file before anything is
allocated, and nothing is ever unpickled.
"""

from bilsh.datasets.arrays import load, open_rows, read_column
from bilsh.datasets.csv import read_csv
from bilsh.datasets.files import (
    read_bvecs,
    read_fvecs,
    read_idx,
    read_ivecs,
    read_npy,
    read_npz,
    write_vecs,
)
from bilsh.datasets.hdf5 import SearchProblem, ann_benchmarks, read_hdf5
from bilsh.datasets.images import ImageFolder, SkippedImage, images
from bilsh.datasets.named import Dataset, digits, mnist
from bilsh.datasets.parquet import read_parquet
from bilsh.datasets.synthetic import clustered, synthetic_matrices, synthetic_pairs

__all__ = [
    "Dataset",
    "ImageFolder",
    "SearchProblem",
    "SkippedImage",
    "ann_benchmarks",
    "clustered",
    "digits",
    "images",
    "load",
    "mnist",
    "open_rows",
    "read_bvecs",
    "read_column",
    "read_csv",
    "read_fvecs",
    "read_hdf5",
    "read_idx",
    "read_ivecs",
    "read_npy",
    "read_npz",
    "read_parquet",
    "synthetic_matrices",
    "synthetic_pairs",
    "write_vecs",
]
