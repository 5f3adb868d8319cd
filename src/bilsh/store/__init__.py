"""Crash-safe, checksummed storage of codes with their ids and their encoder."""

from bilsh.store.backup import Backup
from bilsh.store.inputs import Batch
from bilsh.store.items import Items
from bilsh.store.maintenance import Verification, Version
from bilsh.store.salvage import Salvage
from bilsh.store.store import Store

__all__ = ["Backup", "Batch", "Items", "Salvage", "Store", "Verification", "Version"]
