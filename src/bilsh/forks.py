"""What a process may hold when another of its threads forks: nothing here is left locked for ever in the child."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar
from weakref import WeakSet

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:
    _Value = TypeVar("_Value")

    class cached_property(Generic[_Value]):
        """As in functools from Python 3.12 on: earlier ones hold a lock while they compute, one for all instances.

        Threads of different objects wait for each other there, and a child that is forked meanwhile waits for ever.
        """

        def __init__(self, function: Callable[[Any], _Value]) -> None:
            self._function, self.__doc__ = function, function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._function(instance)
            return value


__all__ = ["Lock", "cached_property"]


class Lock:
    """A lock for `with` that is free in a forked child: the thread that held it has not come along."""

    def __init__(self) -> None:
        self.renew()
        _LOCKS.add(self)

    def renew(self) -> None:
        """Begin anew, whoever holds it."""
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        lock = self._lock
        lock.acquire()
        self._held = lock  # given back even where the holder itself forks, and the child leaves the block too
        return self

    def __exit__(self, *_: object) -> None:
        self._held.release()


_LOCKS: WeakSet[Lock] = WeakSet()


def _renew_all() -> None:
    for lock in _LOCKS:
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
