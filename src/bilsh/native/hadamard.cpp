// Structured projections: blocks of three signed Walsh-Hadamard transforms.
#include <cstring>

#include "encode.h"
#include "kernels.h"
#include "threads.h"
#include "workspace.h"

namespace bilsh {

HadamardPlan::HadamardPlan(const float* signs, std::size_t blocks, std::size_t size, const int32_t* outputs,
                           std::size_t k, std::size_t d, float scale, const float* offsets, const float* tau)
    : Plan(Bits({outputs, outputs + k}, blocks * size, offsets, tau)),
      d_(d),
      blocks_(blocks),
      size_(size),
      scale_(scale),
      signs_(signs, signs + blocks * 3 * size) {}

void HadamardPlan::run(const float* x, std::size_t n, Output output, int n_jobs) const {
    const EncodeKernels& kernels = bilsh::kernels().encode;
    n_jobs = threads_for(2.0 * static_cast<double>(n * blocks_ * size_), n_jobs);
    parallel_for(n, n_jobs, [&](std::size_t item, int) {
        float* y = workspace().values.floats(blocks_ * size_);
        for (std::size_t b = 0; b < blocks_; ++b) {
            float* block = y + b * size_;
            std::memcpy(block, x + item * d_, d_ * sizeof(float));
            std::memset(block + d_, 0, (size_ - d_) * sizeof(float));
            kernels.hadamard(block, size_, signs_.data() + b * 3 * size_);
        }
        bits_.finish_item(kernels, y, bits_.value(), scale_, output, item);
    });
}

}  // namespace bilsh
