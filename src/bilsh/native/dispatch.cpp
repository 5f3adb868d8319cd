#include "dispatch.h"

#include <atomic>
#include <stdexcept>

#if defined(BILSH_AMX)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace bilsh {
namespace {

#if defined(BILSH_AMX)
// Linux keeps the large registers of AMX from a process until it asks for them.
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
            return machine_has(Level::avx512) && __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-int8") &&
                   system_grants_tiles();
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
