#include "kernels.h"

#include <atomic>
#include <stdexcept>

#if defined(BILSH_AMX)
#    include <cpuid.h>
#    include <sys/syscall.h>
#    include <unistd.h>
#endif

namespace bilsh {

// Each level's sources define the same five tables in a namespace of their own.
#define BILSH_TABLES(level)                          \
    namespace level {                                \
    extern const CellKernels cell_kernels;           \
    extern const EncodeKernels encode_kernels;       \
    extern const HammingKernels hamming_kernels;     \
    extern const ScoreKernels score_kernels;         \
    extern const TransformKernels transform_kernels; \
    }
BILSH_TABLES(portable)
#if defined(__x86_64__)
namespace popcnt {
extern const HammingKernels hamming_kernels;
}
BILSH_TABLES(avx2)
BILSH_TABLES(avx512bw)
BILSH_TABLES(avx512)
#endif
#if defined(BILSH_AMX)
namespace amx {
extern const HammingProduct hamming_product;
}
#endif

const Kernels& kernels(Level level) {
#if defined(__aarch64__)
    constexpr const char* name = "neon";  // which every such machine has, so the compiler uses it without being told
#else
    constexpr const char* name = "portable";
#endif
    static const Kernels basic{name,
                               portable::encode_kernels,
                               portable::hamming_kernels,
                               portable::score_kernels,
                               portable::transform_kernels,
                               portable::cell_kernels,
                               nullptr};
#if defined(__x86_64__)
    static const Kernels counting{"popcnt",
                                  portable::encode_kernels,
                                  popcnt::hamming_kernels,
                                  portable::score_kernels,
                                  portable::transform_kernels,
                                  portable::cell_kernels,
                                  nullptr};
    static const Kernels narrow{"avx2",
                                avx2::encode_kernels,
                                avx2::hamming_kernels,
                                avx2::score_kernels,
                                avx2::transform_kernels,
                                avx2::cell_kernels,
                                nullptr};
    static const Kernels bytes{"avx512bw",
                               avx512bw::encode_kernels,
                               avx512bw::hamming_kernels,
                               avx512bw::score_kernels,
                               avx512bw::transform_kernels,
                               avx512bw::cell_kernels,
                               nullptr};
    static const Kernels wide{"avx512",
                              avx512::encode_kernels,
                              avx512::hamming_kernels,
                              avx512::score_kernels,
                              avx512::transform_kernels,
                              avx512::cell_kernels,
                              nullptr};
    if (level == Level::popcnt) return counting;
    if (level == Level::avx2) return narrow;
    if (level == Level::avx512bw) return bytes;
    if (level == Level::avx512) return wide;
#endif
#if defined(BILSH_AMX)
    static const Kernels tiles{"amx",
                               avx512::encode_kernels,
                               avx512::hamming_kernels,
                               avx512::score_kernels,
                               avx512::transform_kernels,
                               avx512::cell_kernels,
                               &amx::hamming_product};
    if (level == Level::amx) return tiles;
#endif
    (void)level;
    return basic;
}

namespace {

#if defined(BILSH_AMX)
// Asked of the processor itself, since compilers differ in what they know of AMX: the tile and int8 instructions, and a
// system that saves the registers.
bool processor_has_tiles() {
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d >> 24 & 3) != 3) return false;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c >> 27 & 1) == 0) return false;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (a >> 17 & 3) == 3;
}

// Linux keeps the registers from a process until it asks for them.
bool system_grants_tiles() {
    constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
#endif

bool machine_has(Level level) {
    switch (level) {
        case Level::portable:
            return true;
#if defined(__x86_64__)
        case Level::popcnt:
            return __builtin_cpu_supports("popcnt");
        case Level::avx2:
            return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
                   __builtin_cpu_supports("popcnt");
        case Level::avx512bw:
            return machine_has(Level::avx2) && __builtin_cpu_supports("avx512f") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("avx512dq");
        case Level::avx512:
            return machine_has(Level::avx512bw) && __builtin_cpu_supports("avx512vpopcntdq") &&
                   __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi");
#endif
#if defined(BILSH_AMX)
        case Level::amx:
            return machine_has(Level::avx512) && processor_has_tiles() && system_grants_tiles();
#endif
        default:
            return false;
    }
}

const Kernels& best() { return kernels(available_levels().back()); }

std::atomic<const Kernels*>& in_force() {
    static std::atomic<const Kernels*> table{&best()};
    return table;
}

}  // namespace

std::vector<Level> available_levels() {
    std::vector<Level> levels;
    for (Level level : {Level::portable, Level::popcnt, Level::avx2, Level::avx512bw, Level::avx512, Level::amx})
        if (machine_has(level)) levels.push_back(level);
    return levels;
}

const Kernels& kernels() { return *in_force().load(std::memory_order_relaxed); }

void force_level(const std::string& name) {
    std::string known = "auto";
    const Kernels* wanted = name == "auto" ? &best() : nullptr;
    for (Level level : available_levels()) {
        if (name == kernels(level).name) wanted = &kernels(level);
        known += std::string(", ") + kernels(level).name;
    }
    if (!wanted) throw std::invalid_argument("level must be one of " + known + "; got '" + name + "'");
    in_force() = wanted;
}

}  // namespace bilsh
