// Matrix products of the encoders, per level; encode_kernels.h says what they make.
#pragma once

#include <cstddef>

#include "encode_kernels.h"

namespace bilsh::BILSH_LEVEL {

void multiply(const float* const* a, std::size_t rows, const float* b, std::size_t b_stride, std::size_t n,
              std::size_t inner, float* c, std::size_t c_stride);
void multiply_tile(const float* const* a, std::size_t rows, const float* b, std::size_t inner, float* c,
                   std::size_t c_stride, bool resume, const NextRows& next);
void multiply_panel(const float* panel, std::size_t stride, std::size_t rows, const float* b, std::size_t inner,
                    float* c, std::size_t c_stride, bool resume);
void dots(const float* const* rows, std::size_t n_rows, const float* const* items, std::size_t n_items,
          std::size_t inner, float* out, std::size_t out_stride, bool resume);
void panel_dots(const float* panel, std::size_t stride, std::size_t n_rows, const float* const* items,
                std::size_t n_items, std::size_t inner, float* out, std::size_t out_stride, bool resume, bool finite);

}  // namespace bilsh::BILSH_LEVEL
