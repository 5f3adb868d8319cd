#include "dispatch.h"

#include <atomic>
#include <stdexcept>

namespace bilsh {
namespace {

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
    for (Level level : {Level::portable, Level::avx2, Level::avx512})
        if (machine_has(level)) levels.push_back(level);
    return levels;
}

const char* level_name(Level level) {
    switch (level) {
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
