// Asymmetric scores: score = bias + sum over bits r of weights[r] * bit_r, in float32.
//
// The order of additions is fixed, so that scores are the same bit for bit on every level, whatever the threads, the
// batch and the slabs:
//   table entry of four bits:  (w0 b0 + w1 b1) + (w2 b2 + w3 b3), where an absent bit adds +0;
//   partial sum of 64 bytes:   entries added one by one to +0, ascending;
//   score:                     partial sums added one by one to +0, ascending; then the bias.
// For codes of n bytes the error is at most (133 + n / 64) * 2^-24 * (|bias| + sum |weights|), to first order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hamming.h"

namespace bilsh {

struct Weights {
    const float* data;  // (n, bits)
    const float* bias;  // (n,)
    std::size_t n;
    std::size_t bits;
};

// Values (n, bits) behind the bits of queries, in turns.
struct Turns {
    const float* data;
    std::size_t n, bits;
};

// For parts of a turn, `bins` of them (a power of two): the weight of a bit, and what it adds to the bias. Bits share
// tables.
struct TurnTables {
    const float* data;          // (tables, bins, 2)
    const std::uint8_t* table;  // of each bit
    std::size_t bins;
};

void weights_of_turns(const Turns& turns, const TurnTables& tables, float* weights, float* bias);

void scores(const Weights& weights, const CodeSet& set, int n_jobs, float* out);

// rows is (weights.n, per_query); every entry is below set.n.
void score_rows(const Weights& weights, const CodeSet& set, const std::int64_t* rows, std::size_t per_query, int n_jobs,
                float* out);

// Largest first, ties by id; ids and scores have min(k, count_alive()) columns.
void score_top_k(const Weights& weights, const CodeSet& set, std::size_t k, int n_jobs, std::int64_t* ids, float* out);

}  // namespace bilsh
