// Which instruction set the kernels run on: the best the machine has, or the one a test forces.
#pragma once

#include <string>
#include <vector>

namespace bilsh {

// amx is avx512 with Hamming distances to many queries on tile registers.
enum class Level { portable, avx2, avx512, amx };

// Levels that were compiled in and that this machine can run, slowest first.
std::vector<Level> available_levels();
const char* level_name(Level level);

// The level in force. `force_level` throws std::invalid_argument for a level that is not available.
Level current_level();
void force_level(const std::string& name);  // "auto" returns to the best one

}  // namespace bilsh
