// Kernels of the streamed and structured projections, per level: the weight generator and the Hadamard transform.
#pragma once

#include <cstddef>
#include <cstdint>

#include "encode_kernels.h"

namespace bilsh::BILSH_LEVEL {

void generate(uint64_t seed, Variate kind, const float* row_scale, std::size_t row_begin, std::size_t row_end,
              std::size_t column_begin, std::size_t column_end, float* out, std::size_t out_stride);
void hadamard(float* y, std::size_t size, const float* signs);

}  // namespace bilsh::BILSH_LEVEL
