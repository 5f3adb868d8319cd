// Matrix products for the encoders, compiled once per instruction set. Every output is one chain of multiply-adds in
// ascending order, so that results do not depend on how the work is cut.
#include "product_kernels.h"

#include "simd.h"

namespace bilsh::BILSH_LEVEL {

constexpr std::size_t T = tile_items;

namespace {

// How the columns of b lie: whole tiles (row stride T), without or with others to be asked for meanwhile, whole vectors
// at any stride, or with a partial last vector.
enum class Strip { tile, tile_ahead, whole, partial };

// Lines of the next rows, to be asked for one after the other.
class Ahead {
public:
    explicit Ahead(const NextRows& next) : row_(next.rows), last_(next.rows + next.n), length_(next.length) {}

    void ask(std::size_t lines) {
        for (; lines > 0; --lines) {
            if (at_ >= end_) {
                if (row_ == last_) return;
                at_ = *row_++;
                end_ = at_ + length_;
            }
            __builtin_prefetch(at_, 0, 2);
            at_ += line;
        }
    }

private:
    static constexpr std::size_t line = 64 / sizeof(float);
    const float *at_ = nullptr, *end_ = nullptr;
    const float *const *row_, *const *last_;
    std::size_t length_;
};

// Steps of the chain between two portions that are asked for, each of as many lines: enough for a tile to come while
// two blocks of rows pass over the one before.
constexpr std::size_t steps_between = 16;

// The weights of some rows: each row where its pointer says, or side by side in a panel.
struct Rows {
    const float* const* rows;

    Rows from(std::size_t row) const { return {rows + row}; }
    template <int R>
    struct Block {
        const float* row[R];
        explicit Block(const Rows& a) {
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r) row[r] = a.rows[r];
        }
        float at(int r, std::size_t p) const { return row[r][p]; }
    };
};
struct Side {
    const float* first;
    std::size_t stride;

    Side from(std::size_t row) const { return {first + row, stride}; }
    template <int R>
    struct Block {
        const float* first;
        std::size_t stride;
        explicit Block(const Side& a) : first(a.first), stride(a.stride) {}
        float at(int r, std::size_t p) const { return first[p * stride + r]; }
    };
};

// The register block: R x C accumulators, one broadcast of a per row, C loads of b, per step of the chain. A stride
// known to the compiler leaves a register for each of the R row pointers; asking within a step would take some of them.
template <int R, int C, Strip strip, class Weights>
inline void multiply_block(const Weights& a, const float* b, std::size_t any_stride, std::size_t inner, int tail,
                           float* c, std::size_t c_stride, bool resume, Ahead& ahead) {
    const std::size_t b_stride = strip == Strip::tile || strip == Strip::tile_ahead ? T : any_stride;
    const std::size_t steps = strip == Strip::tile_ahead ? steps_between : inner;
    Vec acc[R][C];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int j = 0; j < C; ++j) acc[r][j] = resume ? load(c + r * c_stride + j * W) : zero();
    const typename Weights::template Block<R> weights(a);
    for (std::size_t begin = 0; begin < inner; begin += steps) {
        if constexpr (strip == Strip::tile_ahead) ahead.ask(steps);
        const std::size_t end = inner - begin < steps ? inner : begin + steps;
#pragma GCC unroll 4
        for (std::size_t p = begin; p < end; ++p, b += b_stride) {
            Vec x[C];
#pragma GCC unroll 4
            for (int j = 0; j < C; ++j)
                x[j] = strip == Strip::partial && j == C - 1 ? load_some(b + j * W, tail) : load(b + j * W);
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r) {
                const Vec weight = splat(weights.at(r, p));
#pragma GCC unroll 4
                for (int j = 0; j < C; ++j) acc[r][j] = fma(weight, x[j], acc[r][j]);
            }
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int j = 0; j < C; ++j) store(c + r * c_stride + j * W, acc[r][j]);
}

template <int R, int C, Strip strip, class Weights>
inline void multiply_rows(int rows, const Weights& a, const float* b, std::size_t b_stride, std::size_t inner, int tail,
                          float* c, std::size_t c_stride, bool resume, Ahead& ahead) {
    if (rows == R)
        multiply_block<R, C, strip>(a, b, b_stride, inner, tail, c, c_stride, resume, ahead);
    else if constexpr (R > 1)
        multiply_rows<R - 1, C, strip>(rows, a, b, b_stride, inner, tail, c, c_stride, resume, ahead);
}

// All rows, one strip of C vectors. Rows are dealt evenly to the register blocks: 13 rows make 7 + 6, not 12 + 1.
template <int C, Strip strip, class Weights>
void multiply_strip(const Weights& a, std::size_t rows, const float* b, std::size_t b_stride, std::size_t inner,
                    int tail, float* c, std::size_t c_stride, bool resume = false, const NextRows& next = {}) {
    const std::size_t blocks = (rows + block_rows - 1) / block_rows;
    std::size_t begin = 0;
    Ahead ahead(next);
    for (std::size_t i = 0; i < blocks; ++i) {
        const std::size_t end = begin + (rows - begin + (blocks - i) - 1) / (blocks - i);
        multiply_rows<block_rows, C, strip>((int)(end - begin), a.from(begin), b, b_stride, inner, tail,
                                            c + begin * c_stride, c_stride, resume, ahead);
        begin = end;
    }
}

}  // namespace

void multiply_tile(const float* const* a, std::size_t rows, const float* b, std::size_t inner, float* c,
                   std::size_t c_stride, bool resume, const NextRows& next) {
    if (next.n == 0)
        multiply_strip<block_vectors, Strip::tile>(Rows{a}, rows, b, T, inner, 0, c, c_stride, resume, next);
    else
        multiply_strip<block_vectors, Strip::tile_ahead>(Rows{a}, rows, b, T, inner, 0, c, c_stride, resume, next);
}

void multiply_panel(const float* panel, std::size_t stride, std::size_t rows, const float* b, std::size_t inner,
                    float* c, std::size_t c_stride, bool resume) {
    multiply_strip<block_vectors, Strip::tile>(Side{panel, stride}, rows, b, T, inner, 0, c, c_stride, resume);
}

void multiply(const float* const* a, std::size_t rows, const float* b, std::size_t b_stride, std::size_t n,
              std::size_t inner, float* c, std::size_t c_stride) {
    if (n == T && b_stride == T) {
        multiply_tile(a, rows, b, inner, c, c_stride, false, {});
        return;
    }
    std::size_t j = 0;
    for (; j + block_vectors * W <= n; j += block_vectors * W)
        multiply_strip<block_vectors, Strip::whole>(Rows{a}, rows, b + j, b_stride, inner, 0, c + j, c_stride);
    if constexpr (block_vectors == 2)
        if (n - j > W) {
            multiply_strip<2, Strip::partial>(Rows{a}, rows, b + j, b_stride, inner, (int)(n - j) - W, c + j, c_stride);
            return;
        }
    if (n > j) multiply_strip<1, Strip::partial>(Rows{a}, rows, b + j, b_stride, inner, (int)(n - j), c + j, c_stride);
}

namespace {

// Up to W rows in lanes: their W x W blocks are transposed in registers, once for all N items.
template <int N>
inline void dots_block(const float* const* rows, int n_rows, const float* const* items, std::size_t inner, float* out,
                       std::size_t out_stride, bool resume) {
    Vec acc[N];
#pragma GCC unroll 8
    for (int t = 0; t < N; ++t) acc[t] = resume ? load_some(out + t * out_stride, n_rows) : zero();
    std::size_t p = 0;
    Vec column[W];
    for (; p + W <= inner; p += W) {
        load_columns(rows, p, column);
#pragma GCC unroll 16
        for (int s = 0; s < W; ++s)
#pragma GCC unroll 8
            for (int t = 0; t < N; ++t) acc[t] = fma(splat(items[t][p + s]), column[s], acc[t]);
    }
    if (p < inner) {
        const int rest = (int)(inner - p);
        load_columns(rows, p, column);
#pragma GCC unroll 16
        for (int s = 0; s < W; ++s) {
            if (s >= rest) break;
#pragma GCC unroll 8
            for (int t = 0; t < N; ++t) acc[t] = fma(splat(items[t][p + s]), column[s], acc[t]);
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < N; ++t) store_some(out + t * out_stride, acc[t], n_rows);
}

template <int N>
inline void dots_items(int n, const float* const* rows, int n_rows, const float* const* items, std::size_t inner,
                       float* out, std::size_t out_stride, bool resume) {
    if (n == N)
        dots_block<N>(rows, n_rows, items, inner, out, out_stride, resume);
    else if constexpr (N > 1)
        dots_items<N - 1>(n, rows, n_rows, items, inner, out, out_stride, resume);
}

}  // namespace

void dots(const float* const* rows, std::size_t n_rows, const float* const* items, std::size_t n_items,
          std::size_t inner, float* out, std::size_t out_stride, bool resume) {
    constexpr std::size_t items_at_once = 8;
    const std::size_t groups = (n_items + items_at_once - 1) / items_at_once;
    for (std::size_t r = 0; r < n_rows; r += W) {
        const float* lane_rows[W];
        const int n = (int)(n_rows - r < (std::size_t)W ? n_rows - r : W);
        for (int l = 0; l < W; ++l) lane_rows[l] = rows[r + (l < n ? l : 0)];
        std::size_t t = 0;
        for (std::size_t g = 0; g < groups; ++g) {
            const std::size_t count = (n_items - t + (groups - g) - 1) / (groups - g);
            dots_items<items_at_once>((int)count, lane_rows, n, items + t, inner, out + t * out_stride + r, out_stride,
                                      resume);
            t += count;
        }
    }
}

namespace {

constexpr int panel_items = 3;
// Vectors of a panel at once: accumulators of all items, a weight and an entry of each item fill the registers.
template <int N>
constexpr int panel_vectors = N == 1 || W != 8 ? 8 : 4;

// Weights are read at the speed of the cache: a single item leaves out those of its zeros, which add nothing.
template <int V, int N>
inline void panel_block(const float* panel, std::size_t stride, int tail, const float* const* items, std::size_t inner,
                        float* out, std::size_t out_stride, bool resume, bool finite) {
    Vec acc[N][V];
#pragma GCC unroll 4
    for (int t = 0; t < N; ++t)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v)
            acc[t][v] = !resume      ? zero()
                        : v == V - 1 ? load_some(out + t * out_stride + v * W, tail)
                                     : load(out + t * out_stride + v * W);
#pragma GCC unroll 2
    for (std::size_t p = 0; p < inner; ++p, panel += stride) {
        if (N == 1 && finite && items[0][p] == 0.0f) continue;
        Vec x[N];
#pragma GCC unroll 4
        for (int t = 0; t < N; ++t) x[t] = splat(items[t][p]);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
            const Vec weight = load(panel + v * W);
#pragma GCC unroll 4
            for (int t = 0; t < N; ++t) acc[t][v] = fma(x[t], weight, acc[t][v]);
        }
    }
#pragma GCC unroll 4
    for (int t = 0; t < N; ++t)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
            if (v == V - 1)
                store_some(out + t * out_stride + v * W, acc[t][v], tail);
            else
                store(out + t * out_stride + v * W, acc[t][v]);
        }
}

template <int V, int N>
inline void panel_rows_of(int vectors, const float* panel, std::size_t stride, int tail, const float* const* items,
                          std::size_t inner, float* out, std::size_t out_stride, bool resume, bool finite) {
    if (vectors == V)
        panel_block<V, N>(panel, stride, tail, items, inner, out, out_stride, resume, finite);
    else if constexpr (V > 1)
        panel_rows_of<V - 1, N>(vectors, panel, stride, tail, items, inner, out, out_stride, resume, finite);
}

template <int N>
void panel_items_of(int n, const float* panel, std::size_t stride, std::size_t n_rows, const float* const* items,
                    std::size_t inner, float* out, std::size_t out_stride, bool resume, bool finite) {
    if (n < N) {
        if constexpr (N > 1)
            panel_items_of<N - 1>(n, panel, stride, n_rows, items, inner, out, out_stride, resume, finite);
        return;
    }
    constexpr std::size_t rows_at_once = (std::size_t)panel_vectors<N> * W;
    for (std::size_t r = 0; r < n_rows; r += rows_at_once) {
        const std::size_t rows = n_rows - r < rows_at_once ? n_rows - r : rows_at_once;
        const int vectors = (int)((rows + W - 1) / W), tail = (int)rows - (vectors - 1) * W;
        panel_rows_of<panel_vectors<N>, N>(vectors, panel + r, stride, tail, items, inner, out + r, out_stride, resume,
                                           finite);
    }
}

}  // namespace

void panel_dots(const float* panel, std::size_t stride, std::size_t n_rows, const float* const* items,
                std::size_t n_items, std::size_t inner, float* out, std::size_t out_stride, bool resume, bool finite) {
    const std::size_t groups = (n_items + panel_items - 1) / panel_items;
    std::size_t t = 0;
    for (std::size_t g = 0; g < groups; ++g) {
        const std::size_t count = (n_items - t + (groups - g) - 1) / (groups - g);
        panel_items_of<panel_items>((int)count, panel, stride, n_rows, items + t, inner, out + t * out_stride,
                                    out_stride, resume, finite);
        t += count;
    }
}

}  // namespace bilsh::BILSH_LEVEL
