// Codes as Python passes them to a search: packed matrices in slabs, ids and bitmaps, checked.
#pragma once

#include "bindings.h"
#include "hamming.h"
#include "progressive.h"

using Codes = In<std::uint8_t, 2>;
using Slabs = std::vector<Codes>;
using Ids = OptionalIn<std::int64_t, 1>;
using Bitmap = OptionalIn<std::uint8_t, 1>;

// Distances are int32, and so is every partial sum.
inline constexpr std::size_t max_code_bytes = (std::size_t{1} << 28) - 1;

inline bilsh::Queries queries_of(const Codes& codes) {
    require(codes.shape(1) <= max_code_bytes, "codes must be shorter than 2^31 bits");
    return {codes.data(), codes.shape(0), codes.shape(1)};
}

inline bilsh::CodeSet code_set(const Slabs& slabs, std::size_t code_bytes, const Ids& ids = {},
                               const Bitmap& alive = {}) {
    require(!slabs.empty(), "slabs must hold at least one matrix of codes");
    bilsh::CodeSet set;
    set.n = slabs[0].shape(0);
    for (const Codes& slab : slabs) {
        require(slab.shape(0) == set.n,
                "all slabs must have as many rows as the first, " + text(set.n) + "; got " + text(slab.shape(0)));
        set.slabs.push_back({slab.data(), slab.shape(1)});
    }
    require(set.bytes() == code_bytes,
            "the slabs together hold " + text(set.bytes()) + " bytes per code; the queries have " + text(code_bytes));
    require(set.n <= 0xffffffffu, "a code set must have fewer than 2^32 rows");
    require(!ids || ids->shape(0) == set.n,
            "ids must have one entry per row, " + text(set.n) + "; got " + text(ids ? ids->shape(0) : 0));
    const std::size_t bitmap = (set.n + 7) / 8;
    require(!alive || alive->shape(0) == bitmap,
            "alive must have one bit per row, " + text(bitmap) + " bytes; got " + text(alive ? alive->shape(0) : 0));
    set.ids = data_or_null(ids);
    set.alive = data_or_null(alive);
    return set;
}

using Counters = nb::typed<nb::dict, nb::str, nb::any>;

inline Counters counters_of(bilsh::Effort&& effort) {
    Counters counters;
    counters["survivors"] = array_of(std::move(effort.survivors));
    counters["bytes"] = array_of(std::move(effort.bytes));
    counters["seconds"] = array_of(std::move(effort.seconds));
    return counters;
}

inline void check_rows(const In<std::int64_t, 2>& rows, std::size_t n_queries, std::size_t n_rows) {
    require(rows.shape(0) == n_queries,
            "rows must have one row per query, " + text(n_queries) + "; got " + text(rows.shape(0)));
    for (std::size_t i = 0; i < rows.size(); ++i)
        require(rows.data()[i] >= 0 && static_cast<std::size_t>(rows.data()[i]) < n_rows,
                "rows must be from 0 to " + text(n_rows) + " - 1; got " + std::to_string(rows.data()[i]));
}
