"""A disk in memory that can fail, forget and lose power.

It keeps apart what programs see from what a medium holds: bytes reach the medium when their file is synced,
names when their directory is. Between syncs a crash may keep any part of either: `outcomes` gives the disks
that one could find.
"""

from __future__ import annotations

import itertools
from pathlib import Path

from bilsh import StoreBusyError
from bilsh.store.snapshot import versions_among

SECTOR = 512


class Inode:
    def __init__(self, data=b""):
        self.seen = bytearray(data)
        self.kept = bytes(data)
        self.waiting = []

    def write(self, offset, data):
        end = offset + len(data)
        if len(self.seen) < end:
            self.seen.extend(bytes(end - len(self.seen)))
        self.seen[offset:end] = data
        self.waiting.append((offset, bytes(data)))

    def sync(self):
        self.kept, self.waiting = bytes(self.seen), []

    def after_crash(self, chance, rng):
        """Content when each unsynced sector reached the medium with probability `chance`."""
        if not self.waiting or chance == 0:
            return Inode(self.kept)
        if chance == 1:
            return Inode(self.seen)
        found = bytearray(self.kept)
        for offset, data in self.waiting:
            for start in range(0, len(data), SECTOR):
                if rng.random() < chance:
                    piece = data[start : start + SECTOR]
                    end = offset + start + len(piece)
                    found.extend(bytes(max(0, end - len(found))))
                    found[offset + start : end] = piece
        return Inode(found)


class Folder:
    def __init__(self, names=()):
        self.seen = dict(names)
        self.kept = dict(names)
        self.waiting = []

    def put(self, name, inode):
        self.seen[name] = inode
        self.waiting.append((name, inode))

    def remove(self, name):
        del self.seen[name]
        self.waiting.append((name, None))

    def sync(self):
        self.kept, self.waiting = dict(self.seen), []

    def after_crash(self, chosen):
        names = dict(self.kept)
        for (name, inode), applied in zip(self.waiting, chosen, strict=True):
            if applied and inode is not None:
                names[name] = inode
            elif applied:
                names.pop(name, None)
        return names


class SimulatedDisk:
    """Same methods as bilsh.store.files.Disk; `step` runs before each operation, may raise or say "skip"."""

    def __init__(self):
        self.folders = {Path("/"): Folder()}
        self.locked = set()
        self.step = lambda operation, path: None
        self.done = lambda: None

    def perform(self, operation, path, action):
        answer = None if self.step(operation, path) == "skip" else action()
        self.done()
        return answer

    def folder(self, path):
        if path != Path("/") and path.name not in self.folders[Path("/")].seen:
            raise FileNotFoundError(2, "no such directory", str(path))
        return self.folders[path]

    def inode(self, path):
        try:
            return self.folder(path.parent).seen[path.name]
        except KeyError:
            raise FileNotFoundError(2, "no such file", str(path)) from None

    def make_directory(self, path):
        def action():
            if path.name not in self.folders[Path("/")].seen:
                self.folders[Path("/")].put(path.name, Inode())
                self.folders[path] = Folder()

        self.perform("make_directory", path, action)

    def sync_parent(self, path):
        self.perform("sync_directory", path.parent, lambda: self.folder(path.parent).sync())

    def directory(self, path):
        self.folder(path)
        return SimulatedDirectory(self, path)

    def list(self, directory):
        self.step("list", directory)
        return list(self.folder(directory).seen)

    def create(self, path):
        def action():
            if path.name in self.folder(path.parent).seen:
                raise FileExistsError(17, "exists", str(path))
            self.folder(path.parent).put(path.name, Inode())

        self.perform("create", path, action)
        return SimulatedNewFile(self, path)

    def open(self, path):
        self.step("open", path)
        return SimulatedOpenFile(self, path)

    def link(self, source, target):
        def action():
            if target.name in self.folder(target.parent).seen:
                raise FileExistsError(17, "exists", str(target))
            self.folder(target.parent).put(target.name, self.inode(source))

        self.perform("link", target, action)

    def rename(self, source, target):
        def action():
            self.folder(target.parent).put(target.name, self.inode(source))
            self.folder(source.parent).remove(source.name)

        self.perform("rename", target, action)

    def unlink(self, path):
        def action():
            self.inode(path)
            self.folder(path.parent).remove(path.name)

        self.perform("unlink", path, action)

    def sync_directory(self, directory):
        self.perform("sync_directory", directory, lambda: self.folder(directory).sync())

    def lock(self, path):
        self.step("lock", path)
        if path in self.locked:
            raise StoreBusyError("busy")
        if path.name not in self.folder(path.parent).seen:
            self.folder(path.parent).put(path.name, Inode())
        self.locked.add(path)
        return SimulatedLock(self, path)

    def outcomes(self, rng, samples):
        """Disks that a crash could leave now: each unsynced name alone, all but it, and random mixes."""
        waiting = [(path, place) for path, f in self.folders.items() for place in range(len(f.waiting))]
        count = len(waiting)
        if samples is None and count <= 8:
            names = list(itertools.product((False, True), repeat=count))
        else:
            names = [(False,) * count, (True,) * count]
            names += [tuple(i == j for j in range(count)) for i in range(count)]
            names += [tuple(i != j for j in range(count)) for i in range(count)]
            names += [tuple(rng.random(count) < 0.5) for _ in range(samples or 16)]
        unsynced = any(inode.waiting for f in self.folders.values() for inode in f.seen.values())
        chances = (0, 1, 0.5, 0.9) if unsynced else (0,)
        pairs = itertools.product(dict.fromkeys(names), chances)
        if samples is not None:
            pairs = list(pairs)
            pairs = [pairs[i] for i in rng.permutation(len(pairs))[: 4 * samples]]
        for chosen, chance in pairs:
            yield self.after_crash(dict(zip(waiting, chosen, strict=True)), chance, rng)

    @classmethod
    def holding(cls, folder, files):
        """Disk with one directory of synced files, name -> bytes."""
        disk = cls()
        disk.folders[Path("/")] = Folder({folder.name: Inode()})
        disk.folders[folder] = Folder({name: Inode(data) for name, data in files.items()})
        return disk

    def files(self, folder):
        """Name -> bytes of all files in a directory."""
        return {name: bytes(inode.seen) for name, inode in self.folders[folder].seen.items()}

    def after_crash(self, chosen, chance, rng):
        disk, crashed = SimulatedDisk(), {}
        for path, folder in self.folders.items():
            names = folder.after_crash([chosen[path, i] for i in range(len(folder.waiting))])
            for inode in names.values():
                if id(inode) not in crashed:
                    crashed[id(inode)] = inode.after_crash(chance, rng)
            disk.folders[path] = Folder({name: crashed[id(inode)] for name, inode in names.items()})
        return disk


class SimulatedDirectory:
    """Same methods as bilsh.store.files.Directory."""

    def __init__(self, disk, path):
        self.disk, self.path = disk, path

    def identity(self):
        return 7

    def list(self):
        return self.disk.list(self.path)

    def newest(self):
        return max(versions_among(self.list()), default=0)

    def create(self, name):
        return self.disk.create(self.path / name)

    def open(self, name):
        return self.disk.open(self.path / name)

    def link(self, source, target):
        self.disk.link(self.path / source, self.path / target)

    def rename(self, source, target):
        self.disk.rename(self.path / source, self.path / target)

    def adopt(self, source, name):
        return False

    def unlink(self, name):
        self.disk.unlink(self.path / name)

    def sync(self):
        self.disk.sync_directory(self.path)

    def lock(self, name):
        return self.disk.lock(self.path / name)


class SimulatedNewFile:
    def __init__(self, disk, path):
        self.disk, self.path = disk, path
        self.inode = disk.inode(path)

    def write(self, data):
        self.disk.perform("write", self.path, lambda: self.inode.write(len(self.inode.seen), data))

    def write_at(self, offset, data):
        self.disk.perform("write_at", self.path, lambda: self.inode.write(offset, data))

    def sync(self):
        self.disk.perform("sync", self.path, self.inode.sync)

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


class SimulatedOpenFile:
    def __init__(self, disk, path):
        self.disk, self.path, self.inode = disk, path, disk.inode(path)
        self.size = len(self.inode.seen)

    def read_at(self, offset, length):
        self.disk.step("read", self.path)
        return bytes(self.inode.seen[offset : offset + length])

    def map(self, offset, length):
        self.disk.step("map", self.path)
        return memoryview(bytes(self.inode.seen[offset : offset + length]))

    def close(self):
        pass


class SimulatedLock:
    def __init__(self, disk, path):
        self.disk, self.path, self.inode = disk, path, disk.inode(path)

    def note(self, data):
        self.disk.perform("note", self.path, lambda: self.inode.write(0, data))

    def is_held(self):
        return self.disk.folder(self.path.parent).seen.get(self.path.name) is self.inode

    def release(self):
        self.disk.locked.discard(self.path)
