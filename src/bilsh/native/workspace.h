// Scratch memory that each thread keeps between calls: big tiles are expensive to allocate and to fault in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#    include <sys/mman.h>
#endif

namespace bilsh {

// A growing block, aligned to a cache line, its contents undefined after `floats` or `bytes`.
class Scratch {
public:
    Scratch() = default;
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() { std::free(data_); }

    float* floats(std::size_t n) {
        if (n > PTRDIFF_MAX / sizeof(float)) throw std::bad_alloc();
        return static_cast<float*>(reserve(n * sizeof(float)));
    }
    uint8_t* bytes(std::size_t n) { return static_cast<uint8_t*>(reserve(n)); }

private:
    void* reserve(std::size_t bytes) {
        if (bytes <= capacity_) return data_;
        std::free(data_);
        data_ = nullptr;
        capacity_ = 0;
        const std::size_t page = bytes >= huge_page ? huge_page : 64;
        const std::size_t size = (bytes + page - 1) / page * page;
        data_ = std::aligned_alloc(page, size);
        if (!data_) throw std::bad_alloc();
#if defined(__linux__)
        if (page == huge_page) madvise(data_, size, MADV_HUGEPAGE);  // scattered rows would exhaust the TLB
#endif
        capacity_ = size;
        return data_;
    }

    static constexpr std::size_t huge_page = std::size_t{1} << 21;
    void* data_ = nullptr;
    std::size_t capacity_ = 0;
};

// One per thread; members are named after what they hold while a tile is worked on.
struct Workspace {
    Scratch tile, projected, values, planes, matrices, weights, coordinates, shared_tiles, shared_planes;
};

inline thread_local Workspace* workspace_in_use = nullptr;  // null: the thread's own

inline Workspace& workspace() {
    thread_local Workspace mine;
    return workspace_in_use ? *workspace_in_use : mine;
}

}  // namespace bilsh
