// The table of kernels: what each instruction set offers, and which one is in force: the best the machine has, or the
// one a test forces.
#pragma once

#include <string>
#include <vector>

#include "cell_kernels.h"
#include "encode_kernels.h"
#include "hamming_kernels.h"
#include "score_kernels.h"
#include "transform_kernels.h"

namespace bilsh {

// popcnt is portable with an instruction that counts bits; avx512bw has the registers of avx512, but counts bits and
// sums products of bytes as avx2 does (Skylake, Cascade Lake); amx is avx512 with Hamming distances to many queries on
// tile registers.
enum class Level { portable, popcnt, avx2, avx512bw, avx512, amx };

struct Kernels {
    const char* name;
    const EncodeKernels& encode;
    const HammingKernels& hamming;
    const ScoreKernels& scores;
    const TransformKernels& transforms;
    const CellKernels& cells;
    const HammingProduct* product;  // null where there is none
};

// Levels that were compiled in and that this machine can run, slowest first.
std::vector<Level> available_levels();
const Kernels& kernels(Level level);

// Those of the level in force. `force_level` throws std::invalid_argument for a level that is not available.
const Kernels& kernels();
void force_level(const std::string& name);  // "auto" returns to the best one

}  // namespace bilsh
