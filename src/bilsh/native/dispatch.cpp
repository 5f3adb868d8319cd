#include "dispatch.h"

#include <atomic>
#include <stdexcept>

#if defined(BILSH_AMX)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace bilsh {
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
        case Level::avx2:
            return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
                   __builtin_cpu_supports("popcnt");
        case Level::avx512:
            return machine_has(Level::avx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512vpopcntdq");
#endif
#if defined(BILSH_AMX)
        case Level::amx:
            return machine_has(Level::avx512) && processor_has_tiles() && system_grants_tiles();
#endif
        default:
            return false;
    }
}

Level best_level() { return available_levels().back(); }

std::atomic<Level>& level_in_force() {
    static std::atomic<Level> level{best_level()};
    return level;
}

}  // namespace

std::vector<Level> available_levels() {
    std::vector<Level> levels;
    for (Level level : {Level::portable, Level::avx2, Level::avx512, Level::amx})
        if (machine_has(level)) levels.push_back(level);
    return levels;
}

const char* level_name(Level level) {
    switch (level) {
        case Level::amx:
            return "amx";
        case Level::avx512:
            return "avx512";
        case Level::avx2:
            return "avx2";
        default:
            return "portable";
    }
}

Level current_level() { return level_in_force().load(std::memory_order_relaxed); }

void force_level(const std::string& name) {
    if (name == "auto") {
        level_in_force() = best_level();
        return;
    }
    std::string known = "auto";
    for (Level level : available_levels()) {
        if (name == level_name(level)) {
            level_in_force() = level;
            return;
        }
        known += std::string(", ") + level_name(level);
    }
    throw std::invalid_argument("level must be one of " + known + "; got '" + name + "'");
}

}  // namespace bilsh
