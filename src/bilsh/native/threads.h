// The library's one thread pool. Work is cut into numbered tasks; any thread may take any task.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>

namespace bilsh {

// Thrown by `poll` when the caller wants its work to end early. What was made so far is to be thrown away.
struct Interrupted {};

// While it lives, `interrupted` is asked a few times per second, on the thread that made it, by the work done there. It
// may run anything, this library included.
class Watch {
public:
    explicit Watch(bool (*interrupted)());
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ~Watch();

private:
    friend void poll();
    friend struct Job;
    bool asks_to_stop();

    bool (*interrupted_)();
    Watch* const outer_;
    std::atomic<bool> stopped_{false};
    std::chrono::milliseconds next_;
};

// To be called every millisecond or so by long work, on any thread of it.
void poll();

// How many threads are of use for work that one does in about so many nanoseconds. To wake a thread takes a while, so
// each gets a tenth of a millisecond at least, or what `set_least_share` says.
int threads_for(double nanoseconds, int n_jobs);
void set_least_share(double nanoseconds);

// Runs task(index, worker) for index in [0, n_tasks) on at most n_jobs threads, the caller included; worker < n_jobs
// names the workspace a task may use. Results must not depend on which worker ran a task. An exception is rethrown.
// Polls before every task.
void parallel_for(std::size_t n_tasks, int n_jobs, const std::function<void(std::size_t index, int worker)>& task);

}  // namespace bilsh
