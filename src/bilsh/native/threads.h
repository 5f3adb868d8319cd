// The library's one thread pool. Work is cut into numbered tasks; any thread may take any task.
#pragma once

#include <cstddef>
#include <functional>

namespace bilsh {

// Runs task(index, worker) for index in [0, n_tasks) on at most n_jobs threads, the caller included; worker < n_jobs
// names the workspace a task may use. Results must not depend on which worker ran a task. An exception is rethrown.
void parallel_for(std::size_t n_tasks, int n_jobs, const std::function<void(std::size_t index, int worker)>& task);

}  // namespace bilsh
