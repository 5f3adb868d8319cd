"""Width and height of an image from its first bytes: a small file may declare a picture that fills the memory."""

from collections.abc import Callable

MAX_PIXELS = 200_000_000
"""Larger images are not decoded: 200 million gray values are 200 MB, and a decoder needs several times that."""

Size = tuple[int, int]


def image_size(data: bytes) -> Size | None:
    """Return (width, height) as the header of a BMP, JPEG, PNG, PNM, TIFF or WebP file declares them, else None.

    Examples
    --------
    >>> image_size(b"P5 640 480 255 ")
    (640, 480)
    """
    for magic, read in _READERS:
        if data.startswith(magic):
            try:
                return read(data)
            except (IndexError, ValueError):
                return None
    return None


def _number(data: bytes, at: int, length: int, order: str = "little") -> int:
    part = data[at : at + length]
    if len(part) != length:
        raise ValueError("the header is cut short")
    return int.from_bytes(part, "little" if order == "little" else "big")


def _png(data: bytes) -> Size:
    return _number(data, 16, 4, "big"), _number(data, 20, 4, "big")


def _bmp(data: bytes) -> Size:
    if _number(data, 14, 4) == 12:
        return _number(data, 18, 2), _number(data, 20, 2)
    height = int.from_bytes(data[22:26], "little", signed=True)  # negative: rows from the top
    return _number(data, 18, 4), abs(height)


def _jpeg(data: bytes) -> Size:
    at = 2
    while True:
        while data[at] != 0xFF:
            at += 1
        while data[at] == 0xFF:
            at += 1
        marker = data[at]
        # Start of frame: C0 to CF without the tables C4, C8 and CC.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return _number(data, at + 6, 2, "big"), _number(data, at + 4, 2, "big")
        at += 1 if marker in (0x01, *range(0xD0, 0xD9)) else 1 + _number(data, at + 1, 2, "big")


def _webp(data: bytes) -> Size:
    if data[8:12] != b"WEBP":
        raise ValueError("not WebP")
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + _number(data, 24, 3), 1 + _number(data, 27, 3)
    if kind == b"VP8L":
        bits = _number(data, 21, 4)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return _number(data, 26, 2) & 0x3FFF, _number(data, 28, 2) & 0x3FFF


def _tiff(data: bytes) -> Size:
    order = "little" if data[:2] == b"II" else "big"
    big = _number(data, 2, 2, order) == 43
    at = _number(data, 8, 8, order) if big else _number(data, 4, 4, order)
    count, at, step = (
        (_number(data, at, 8, order), at + 8, 20) if big else (_number(data, at, 2, order), at + 2, 12)
    )
    found: dict[int, int] = {}
    for entry in range(at, at + step * min(count, 4096), step):
        tag, kind = _number(data, entry, 2, order), _number(data, entry + 2, 2, order)
        if tag in (256, 257):
            found[tag] = _number(
                data, entry + (12 if big else 8), {3: 2, 4: 4}.get(kind, 8 if big else 4), order
            )
    return found.get(256, 0), found.get(257, 0)


def _pnm(data: bytes) -> Size:
    words: list[int] = []
    for line in data[2:4096].split(b"\n"):
        words += [int(word) for word in line.partition(b"#")[0].split()[: 2 - len(words)]]
        if len(words) == 2:
            return words[0], words[1]
    raise ValueError("the header is cut short")


_READERS: list[tuple[bytes, Callable[[bytes], Size]]] = [
    (b"\x89PNG\r\n\x1a\n", _png),
    (b"\xff\xd8", _jpeg),
    (b"BM", _bmp),
    (b"RIFF", _webp),
    (b"II", _tiff),
    (b"MM", _tiff),
    *((b"P%d" % kind, _pnm) for kind in range(1, 7)),
]
