#include "encode.h"

#include <algorithm>
#include <utility>

#include "kernels.h"
#include "threads.h"

namespace bilsh {

Bits::Bits(std::vector<uint32_t> value, std::size_t n_values, const float* offsets, const float* tau)
    : k_(value.size()), value_(std::move(value)), first_(n_values + 1, 0), position_(k_), sorted_offset_(k_) {
    for (std::size_t r = 0; r < k_; ++r) ++first_[value_[r] + 1];
    for (std::size_t u = 0; u < n_values; ++u) first_[u + 1] += first_[u];
    std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
    for (std::size_t r = 0; r < k_; ++r) position_[next[value_[r]]++] = static_cast<uint32_t>(r);
    for (std::size_t s = 0; s < k_; ++s) sorted_offset_[s] = offsets[position_[s]];
    if (tau) {
        sorted_tau_.resize(k_);
        for (std::size_t s = 0; s < k_; ++s) sorted_tau_[s] = tau[position_[s]];
        tau_.assign(tau, tau + k_);
        tau_.resize(plane_stride(), 0.0f);
    }
    offset_.assign(offsets, offsets + k_);
    offset_.resize(plane_stride(), 0.0f);
    value_.resize(plane_stride(), 0);
}

BitTable Bits::table() const {
    return {first_.data(), position_.data(), sorted_offset_.data(), sorted_tau_.empty() ? nullptr : sorted_tau_.data()};
}

void Bits::finish_tile(const EncodeKernels& kernels, const float* values, std::size_t begin, std::size_t end,
                       std::size_t n_items, uint8_t* planes, Output output, std::size_t item) const {
    if (begin == 0)
        for (std::size_t t = 0; t < n_items; ++t) output.look(values[t], limit());
    if (output.codes)
        kernels.quantize_tile(values, begin, end, table(), planes, plane_stride());
    else
        kernels.write_tile(values, begin, end, table(), n_items, output.values + item * k_, k_);
}

void Bits::pack_tile(const EncodeKernels& kernels, const uint8_t* planes, std::size_t n_items, Output output,
                     std::size_t item) const {
    if (output.codes) kernels.pack_planes(planes, plane_stride(), k_, n_items, output.codes + item * bytes(), bytes());
}

void Bits::finish_item(const EncodeKernels& kernels, const float* values, const uint32_t* index, float scale,
                       Output output, std::size_t item) const {
    output.look(values[index[0]] * scale, limit());
    if (output.codes)
        kernels.quantize_item(values, index, scale, offset_.data(), tau_.empty() ? nullptr : tau_.data(), k_,
                              output.codes + item * bytes());
    else
        kernels.write_item(values, index, scale, offset_.data(), k_, output.values + item * k_);
}

void quantize(const float* values, std::size_t n, std::size_t k, const float* tau, uint8_t* codes) {
    const EncodeKernels& kernels = bilsh::kernels().encode;
    const std::size_t whole = k / 64 * 64, rest = k - whole, bytes = (k + 7) / 8;
    float last[64] = {}, last_tau[64] = {};
    if (tau) std::copy(tau + whole, tau + k, last_tau);
    for (std::size_t i = 0; i < n; ++i, values += k, codes += bytes) {
        if (i % 256 == 0) poll();
        kernels.quantize_item(values, nullptr, 1.0f, nullptr, tau, whole, codes);
        std::copy(values + whole, values + k, last);
        if (rest)
            kernels.quantize_item(last, nullptr, 1.0f, nullptr, tau ? last_tau : nullptr, rest, codes + whole / 8);
    }
}

}  // namespace bilsh
