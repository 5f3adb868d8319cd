"""From photographs to matrices: SIFT aggregated into VLAD, HOG, or plain pixels; whole folders by describe.

A descriptor is a small frozen object: ``shape`` is the shape of its matrices, ``compute(image)`` turns gray
values into one of them (or None where an image shows nothing to describe). :func:`describe` runs it over a
folder, in several processes, and keeps finished parts on disk: an interrupted run goes on where it stopped.
"""

from bilsh.descriptors.folder import Described, describe
from bilsh.descriptors.kinds import Descriptor, Hog, Pixels, Vlad, learn_codebook, sift, vlad

__all__ = ["Described", "Descriptor", "Hog", "Pixels", "Vlad", "describe", "learn_codebook", "sift", "vlad"]
