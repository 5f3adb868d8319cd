"""Crash-safe, checksummed storage of codes with their ids and their encoder."""

from bilsh.store.inputs import Batch
from bilsh.store.items import Items
from bilsh.store.store import Store

__all__ = ["Batch", "Items", "Store"]
