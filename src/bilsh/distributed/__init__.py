"""Encoding on many machines: a plan, staged segments with receipts, one atomic commit; every step may be repeated."""

from bilsh.distributed.encoding import Encoded, encode
from bilsh.distributed.sources import Generated

__all__ = ["Encoded", "Generated", "encode"]
