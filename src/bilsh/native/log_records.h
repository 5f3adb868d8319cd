// Records of a store's log: seven bits to a byte, every length and CRC-32 checked. docs/store-format.md has the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bilsh {

// What a log holds: the bytes of all whole records, without their CRC-32; where each begins, and the last one ends; and
// where in the log the next record would begin.
struct LogRecords {
    std::vector<std::uint8_t> plain;
    std::vector<std::int64_t> starts;
    std::size_t end;
};

// Reads the records from offset `at` of a log of `n` bytes on. The first makes version base + 1; CRC-32s go on from
// `seed`; no record has more than `most` bytes. Throws std::invalid_argument where a byte is not as written.
LogRecords unpack_records(const std::uint8_t* log, std::size_t n, std::size_t at, std::uint64_t base,
                          std::uint32_t seed, std::size_t most);

// The bytes of a record that begins at offset `at`, with length and CRC-32.
std::vector<std::uint8_t> pack_record(const std::uint8_t* plain, std::size_t n, std::uint64_t at, std::uint32_t seed);

}  // namespace bilsh
