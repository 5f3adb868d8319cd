"""Records of a log as docs/store-format.md says it, bit by bit: what the compiled core is compared with."""

import struct
import zlib

import numpy as np


class LiteralLog:
    """Same functions as the compiled core; `codes` are the bytes that stand for each seven bits."""

    def __init__(self, codes=(0x7F, *range(0x81, 0x100)), nothing_follows=True):
        self.codes, self.nothing_follows = list(codes), nothing_follows

    def stuff(self, data):
        word = int.from_bytes(data, "little")
        return bytes(self.codes[word >> 7 * i & 0x7F] for i in range(packed_size(len(data))))

    def plain(self, packed, n_bytes):
        word = sum(self.codes.index(byte) << 7 * i for i, byte in enumerate(packed))
        return word.to_bytes(n_bytes, "little")

    def frame(self, n_bytes, at, seed):
        check = zlib.crc32(struct.pack("<QI", at, n_bytes), seed) >> 4
        return self.stuff((n_bytes | check << 28).to_bytes(7, "little"))

    def pack_record(self, plain, at, seed):
        data = plain + struct.pack("<I", zlib.crc32(plain, seed))
        return self.frame(len(data), at, seed) + self.stuff(data)

    def records(self, log, at, seed, most):
        """Bytes of each record, and where the next would begin; ValueError where a byte is not as written."""
        found = []
        while at + 8 <= len(log):
            frame = log[at : at + 8]
            if b"\0" in frame:
                self._last(log, at + 8 + packed_size(most))
                break
            n_bytes = int.from_bytes(self.plain(frame, 7), "little") & 0xFFFFFFF
            end = at + 8 + packed_size(n_bytes)
            packed = log[at + 8 : end]
            if frame != self.frame(n_bytes, at, seed):
                raise ValueError("a wrong length")
            if b"\0" in packed:
                self._last(log, end)
                break
            if len(packed) != packed_size(n_bytes):
                raise ValueError("longer than the file")
            try:
                data = self.plain(packed, n_bytes)
            except OverflowError:
                raise ValueError("bits behind a record") from None
            if n_bytes < 4 or zlib.crc32(data[:-4], seed) != struct.unpack("<I", data[-4:])[0]:
                raise ValueError("a wrong checksum")
            found.append(data[:-4])
            at = end
        return found, at

    def _last(self, log, at):
        if self.nothing_follows and log[at:].strip(b"\0"):
            raise ValueError("others follow")

    def unpack_records(self, log, at, base, seed, most):
        found, end = self.records(log, at, seed, most)
        starts = np.cumsum([0, *map(len, found)])
        return np.frombuffer(b"".join(found), np.uint8), starts, end


def packed_size(n_bytes):
    return -(-8 * n_bytes // 7)
