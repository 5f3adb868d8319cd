"""Engines that keep and search codes: the embedded store, FAISS, Lance, PostgreSQL, Milvus; one protocol for all."""

from bilsh.engines.addresses import Address, create_collection, open_collection
from bilsh.engines.base import Collection
from bilsh.engines.spec import Capabilities, CodeSpec

create = create_collection

__all__ = ["Address", "Capabilities", "CodeSpec", "Collection", "create", "open_collection"]
