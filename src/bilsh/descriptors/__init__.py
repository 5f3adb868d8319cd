"""From photographs to matrices: edges and colours, HOG, SIFT aggregated into VLAD, pixels, or a function of one's own.

A descriptor is a small frozen object: ``shape`` is the shape of its matrices, ``compute(image)`` turns gray
values (or colours, where its ``color`` is true) into one of them, or None where an image shows nothing to describe.
:func:`choose_descriptor` looks at a folder and chooses. :func:`describe` runs a descriptor over a folder, in several
processes, and keeps finished parts on disk: an interrupted run goes on where it stopped.
"""

from bilsh.descriptors.choice import DESCRIPTORS, DescriptorChoice, choose_descriptor, named_descriptor
from bilsh.descriptors.folder import Described, describe, describe_image
from bilsh.descriptors.kinds import Descriptor, Hog, Pixels, Vlad, learn_codebook, sift, vlad
from bilsh.descriptors.layout import HogColor
from bilsh.descriptors.user import UserFunction

__all__ = [
    "DESCRIPTORS",
    "Described",
    "Descriptor",
    "DescriptorChoice",
    "Hog",
    "HogColor",
    "Pixels",
    "UserFunction",
    "Vlad",
    "choose_descriptor",
    "describe",
    "describe_image",
    "learn_codebook",
    "named_descriptor",
    "sift",
    "vlad",
]
