"""Locality-sensitive binary codes for high-dimensional descriptors."""

from importlib.metadata import version

__version__ = version("bilsh")
