// What the parts of the Python module share: arrays in and out, and errors with a message.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "threads.h"

namespace nb = nanobind;

template <class T, int ndim>
using In = nb::ndarray<nb::numpy, const T, nb::ndim<ndim>, nb::c_contig, nb::device::cpu>;
template <class T, int ndim>
using OptionalIn = std::optional<In<T, ndim>>;
template <class T, int ndim>
using Out = nb::ndarray<nb::numpy, T, nb::ndim<ndim>, nb::c_contig>;

inline std::string text(std::size_t n) { return std::to_string(n); }

inline void require(bool holds, const std::string& message) {
    if (!holds) throw std::invalid_argument(message);
}

template <class Array>
auto data_or_null(const std::optional<Array>& array) {
    return array ? array->data() : nullptr;
}

// Uninitialised memory, null if there is none. Large arrays get large pages where the system has them: a scan of codes
// in small ones reads a third less per second.
inline void* new_memory(std::size_t bytes) {
    constexpr std::size_t page = std::size_t{1} << 21;
    if (bytes < 2 * page) return std::malloc(std::max<std::size_t>(bytes, 1));
    void* memory = std::aligned_alloc(page, (bytes + page - 1) / page * page);
#if defined(MADV_HUGEPAGE)
    if (memory) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    return memory;
}

// A new array that owns its memory, left uninitialised.
template <class T>
Out<T, 2> new_matrix(std::size_t rows, std::size_t columns) {
    std::size_t size;
    T* data = nullptr;
    if (!__builtin_mul_overflow(rows, columns, &size) && size <= PTRDIFF_MAX / sizeof(T) / 2)
        data = static_cast<T*>(new_memory(size * sizeof(T)));
    if (!data) {
        PyErr_SetString(PyExc_MemoryError, ("no memory for an array of shape (" + text(rows) + ", " + text(columns) +
                                            "); ask for fewer rows at a time")
                                               .c_str());
        throw nb::python_error();
    }
    nb::capsule owner(data, [](void* p) noexcept { std::free(p); });
    return Out<T, 2>(data, {rows, columns}, owner);
}

template <class T>
Out<T, 1> array_of(std::vector<T>&& values) {
    auto kept = std::make_unique<std::vector<T>>(std::move(values));
    nb::capsule owner(kept.get(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    std::vector<T>* held = kept.release();
    return Out<T, 1>(held->data(), {held->size()}, owner);
}

// A number of threads that is of use: each takes memory of its own.
inline int thread_count(int n_jobs) { return std::clamp(n_jobs, 1, 256); }

// Whether a signal's handler raised an exception, which then is Python's current one.
bool signal_raised();

// Does the work while other Python threads run. Ctrl-C ends it within a fraction of a second.
template <class Work>
void unlocked(const Work& work) {
    bool interrupted = false;
    {
        nb::gil_scoped_release released;
        const bilsh::Watch watch(&signal_raised);
        try {
            work();
        } catch (const bilsh::Interrupted&) { interrupted = true; }
    }
    if (interrupted) throw nb::python_error();
}

// The parts; each binds its own functions.
void bind_encode(nb::module_& m);
void bind_search(nb::module_& m);
void bind_cells(nb::module_& m);
void bind_transform(nb::module_& m);
void bind_log(nb::module_& m);
void bind_files(nb::module_& m);
void bind_hits(nb::module_& m);
