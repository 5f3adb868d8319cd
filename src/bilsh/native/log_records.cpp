#include "log_records.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>

namespace bilsh {
namespace {

using Byte = std::uint8_t;
using Word = std::uint64_t;

constexpr std::size_t frame_bytes = 8, crc_bytes = 4;
constexpr Word every = 0x0101010101010101u, sevens = 0x7f * every, tops = 0x80 * every;

// The CRC-32 of zlib, eight bytes at a time.
constexpr std::array<std::array<std::uint32_t, 256>, 8> crc_tables() {
    std::array<std::array<std::uint32_t, 256>, 8> tables{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t value = i;
        for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xedb88320u : 0);
        tables[0][i] = value;
    }
    for (std::size_t t = 1; t < 8; ++t)
        for (std::size_t i = 0; i < 256; ++i) tables[t][i] = tables[t - 1][i] >> 8 ^ tables[0][tables[t - 1][i] & 0xff];
    return tables;
}

constexpr auto tables = crc_tables();

Word load(const Byte* from) {
    Word word = 0;
    for (int i = 0; i < 8; ++i) word |= Word{from[i]} << 8 * i;
    return word;
}

void store(Word word, Byte* to, int n) {
    for (int i = 0; i < n; ++i) to[i] = static_cast<Byte>(word >> 8 * i);
}

std::uint32_t crc32(const Byte* data, std::size_t n, std::uint32_t seed) {
    std::uint32_t crc = ~seed;
    for (; n >= 8; data += 8, n -= 8) {
        const Word word = load(data) ^ crc;
        crc = 0;
        for (std::size_t i = 0; i < 8; ++i) crc ^= tables[7 - i][word >> 8 * i & 0xff];
    }
    for (; n; ++data, --n) crc = crc >> 8 ^ tables[0][(crc ^ *data) & 0xff];
    return ~crc;
}

// 56 bits as eight bytes that carry seven each: none of them is zero, nor has only one bit.
Word spread(Word value) {
    value = (value & 0x0fffffff) | (value << 4 & Word{0x0fffffff} << 32);
    value = (value & 0x00003fff00003fff) | (value << 2 & 0x3fff00003fff0000);
    value = (value & 0x007f007f007f007f) | (value << 1 & 0x7f007f007f007f00);
    const Word set = (value + sevens) & tops;  // the top bits of bytes that are not zero
    return value | set | (sevens & ~((set >> 7) * 0x7f));
}

// The reverse; false where there is a byte that no record has.
bool gather(Word word, Word* value) {
    const Word set = word & tops, mask = (set >> 7) * 0x7f;
    const Word low = word & sevens;
    Word bits = low & mask;
    bits = (bits & 0x007f007f007f007f) | (bits & 0x7f007f007f007f00) >> 1;
    bits = (bits & 0x00003fff00003fff) | (bits & 0x3fff00003fff0000) >> 2;
    *value = (bits & 0x0fffffff) | bits >> 32 << 28;
    return (((low ^ (sevens & ~mask)) + sevens) & tops) == set;
}

std::size_t packed_size(std::size_t n) { return (8 * n + 6) / 7; }

Word frame(std::size_t n, Word at, std::uint32_t seed) {
    std::array<Byte, 12> bytes;
    store(at, bytes.data(), 8);
    store(n, bytes.data() + 8, 4);
    return spread(n | Word{crc32(bytes.data(), bytes.size(), seed) >> 4} << 28);
}

[[noreturn]] void refuse(Word version, const char* what) {
    throw std::invalid_argument("version " + std::to_string(version) + what);
}

// Only the last record may be unfinished.
void nothing_behind(const Byte* log, std::size_t n, std::size_t at, Word version) {
    if (std::any_of(log + std::min(at, n), log + n, [](Byte byte) { return byte != 0; }))
        refuse(version, " is cut off, but others follow");
}

// Appends the n bytes of a record, of which CRC-32 are the last.
void unpack(const Byte* packed, std::size_t n, std::uint32_t seed, Word version, std::vector<Byte>* plain) {
    const std::size_t start = plain->size(), size = packed_size(n), groups = (size + 7) / 8;
    plain->resize(start + 7 * groups);
    Byte* out = plain->data() + start;
    bool good = true;
    for (std::size_t i = 0; i < groups; ++i, out += 7) {
        std::array<Byte, 8> group;
        group.fill(0x7f);
        std::memcpy(group.data(), packed + 8 * i, std::min<std::size_t>(8, size - 8 * i));
        Word value;
        good &= gather(load(group.data()), &value);
        store(value, out, 7);
    }
    const Byte* data = plain->data() + start;
    if (!good || std::any_of(data + n, data + 7 * groups, [](Byte byte) { return byte != 0; }))
        refuse(version, " has bytes that no record has");
    std::array<Byte, crc_bytes> crc{};
    if (n >= crc_bytes) store(crc32(data, n - crc_bytes, seed), crc.data(), crc_bytes);
    if (n < crc_bytes || std::memcmp(crc.data(), data + n - crc_bytes, crc_bytes) != 0)
        refuse(version, ": the checksum does not match");
    plain->resize(start + n - crc_bytes);
}

}  // namespace

LogRecords unpack_records(const Byte* log, std::size_t n, std::size_t at, Word base, std::uint32_t seed,
                          std::size_t most) {
    LogRecords found{{}, {0}, at};
    const void* none = at < n ? std::memchr(log + at, 0, n - at) : nullptr;
    const std::size_t zero = none ? static_cast<std::size_t>(static_cast<const Byte*>(none) - log) : n;
    found.plain.reserve(zero > at ? zero - at : 0);
    for (Word version = base + 1; found.end + frame_bytes <= n; ++version) {
        const std::size_t begin = found.end + frame_bytes;
        if (zero < begin) {
            nothing_behind(log, n, begin + packed_size(most), version);
            break;
        }
        Word value;
        const Word word = load(log + found.end);
        gather(word, &value);
        const std::size_t length = value & 0x0fffffff;
        if (word != frame(length, found.end, seed)) refuse(version, " begins with a wrong length");
        const std::size_t end = begin + packed_size(length);
        if (zero < end && zero < n) {
            nothing_behind(log, n, end, version);
            break;
        }
        if (end > n) refuse(version, " is longer than the file");
        unpack(log + begin, length, seed, version, &found.plain);
        found.starts.push_back(static_cast<std::int64_t>(found.plain.size()));
        found.end = end;
    }
    return found;
}

std::vector<Byte> pack_record(const Byte* plain, std::size_t n, Word at, std::uint32_t seed) {
    std::vector<Byte> data(plain, plain + n);
    data.resize(n + crc_bytes);
    store(crc32(plain, n, seed), data.data() + n, crc_bytes);
    const std::size_t size = packed_size(data.size()), groups = (size + 7) / 8;
    std::vector<Byte> packed(frame_bytes + 8 * groups);
    store(frame(data.size(), at, seed), packed.data(), 8);
    data.resize(7 * groups);
    for (std::size_t i = 0; i < groups; ++i) {
        Word value = 0;
        for (int b = 0; b < 7; ++b) value |= Word{data[7 * i + static_cast<std::size_t>(b)]} << 8 * b;
        store(spread(value), packed.data() + frame_bytes + 8 * i, 8);
    }
    packed.resize(frame_bytes + size);
    return packed;
}

}  // namespace bilsh
