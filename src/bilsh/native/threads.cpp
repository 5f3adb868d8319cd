#include "threads.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "workspace.h"

namespace bilsh {
namespace {

// Returns when the condition holds or a moment has passed. To wake a sleeping thread takes as long as encoding some
// items, and the next call often follows at once: so threads stay awake for this moment.
template <class Condition>
void stay_awake_for(const Condition& condition) {
    constexpr std::chrono::microseconds moment{100};
    const auto end = std::chrono::steady_clock::now() + moment;
    while (!condition() && std::chrono::steady_clock::now() < end) {
        for (int i = 0; i < 32; ++i) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#elif defined(__aarch64__)
            __asm__ volatile("yield");
#endif
        }
    }
}

// The watch over the work that this thread does, and whether it was made here.
struct Watched {
    Watch* watch = nullptr;
    bool here = false;
};
thread_local Watched watched;

// To within a few milliseconds: polls are many, and the exact clock takes as long as a small item's share of the work.
std::chrono::milliseconds about_now() {
#if defined(CLOCK_MONOTONIC_COARSE)
    timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return std::chrono::milliseconds(1000 * std::int64_t{now.tv_sec} + now.tv_nsec / 1'000'000);
#else
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch());
#endif
}

constexpr std::chrono::milliseconds between_looks{100};

}  // namespace

Watch::Watch(bool (*interrupted)())
    : interrupted_(interrupted), outer_(watched.watch), next_(about_now() + between_looks) {
    watched = {this, true};
}

Watch::~Watch() { watched = {outer_, outer_ != nullptr}; }

bool Watch::asks_to_stop() {
    if (about_now() >= next_ && !stopped_) {
        // What it runs may need scratch memory, and this thread is using its own.
        Workspace other;
        Workspace* const own = workspace_in_use;
        workspace_in_use = &other;
        stopped_ = interrupted_();
        workspace_in_use = own;
        next_ = about_now() + between_looks;
    }
    return stopped_;
}

void poll() {
    if (!watched.watch) return;
    if (watched.here ? watched.watch->asks_to_stop() : watched.watch->stopped_.load(std::memory_order_relaxed))
        throw Interrupted{};
}

// One call of parallel_for: a counter of tasks not yet taken, and who still works on it.
struct Job {
    std::size_t n_tasks;
    const std::function<void(std::size_t, int)>* task;
    std::atomic<std::size_t> next{0};
    std::atomic<int> workers{0};
    std::mutex mutex;
    std::condition_variable done;
    std::atomic<int> running{0};
    std::exception_ptr error;
    const Watched caller = watched;

    void work(int worker) {
        for (std::size_t i; (i = next.fetch_add(1)) < n_tasks;) {
            try {
                poll();
                (*task)(i, worker);
            } catch (...) {
                std::lock_guard<std::mutex> lock(mutex);
                if (!error) error = std::current_exception();
                next = n_tasks;
            }
        }
    }
    void help() {
        watched = {caller.watch, false};
        work(workers.fetch_add(1));
        watched = {};
        std::lock_guard<std::mutex> lock(mutex);
        if (--running == 0) done.notify_all();
    }
    // Until all helpers are done; the caller's thread alone can tell them to stop.
    void wait() {
        std::unique_lock<std::mutex> lock(mutex);
        while (!done.wait_for(lock, std::chrono::milliseconds(50), [&] { return running == 0; }))
            if (caller.here) {
                lock.unlock();
                caller.watch->asks_to_stop();
                lock.lock();
            }
        if (error) std::rethrow_exception(error);
    }
};

namespace {

class Pool {
public:
    void submit(const std::shared_ptr<Job>& job, int helpers) {
        std::lock_guard<std::mutex> lock(mutex_);
        while (threads_ < helpers) {
            std::thread([this] { loop(); }).detach();
            ++threads_;
        }
        for (int i = 0; i < helpers; ++i) queue_.push_back(job);
        waiting_ += helpers;
        if (sleepers_ > 0) wake_.notify_all();
    }

    // Takes back the places in the queue that no thread has filled yet.
    void withdraw(const std::shared_ptr<Job>& job) {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto rest = std::remove(queue_.begin(), queue_.end(), job);
        {
            std::lock_guard<std::mutex> job_lock(job->mutex);
            job->running -= static_cast<int>(queue_.end() - rest);
        }
        waiting_ -= static_cast<int>(queue_.end() - rest);
        queue_.erase(rest, queue_.end());
    }

private:
    void loop() {
        for (;;) {
            std::shared_ptr<Job> job;
            // More threads than cores would only keep each other from working.
            if (threads_ < cores_) stay_awake_for([this] { return waiting_ > 0; });
            {
                std::unique_lock<std::mutex> lock(mutex_);
                ++sleepers_;
                wake_.wait(lock, [this] { return !queue_.empty(); });
                --sleepers_;
                job = queue_.front();
                queue_.pop_front();
                --waiting_;
            }
            job->help();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::shared_ptr<Job>> queue_;
    std::atomic<int> waiting_{0};  // entries of the queue
    std::atomic<int> threads_{0};
    int sleepers_ = 0;
    const int cores_ = static_cast<int>(std::thread::hardware_concurrency());
};

// Never destroyed: its threads may still wait when the process ends. After fork() a child starts a pool of its own.
Pool*& pool() {
    static Pool* instance = [] {
        pthread_atfork(nullptr, nullptr, [] { pool() = new Pool; });
        return new Pool;
    }();
    return instance;
}

}  // namespace

namespace {
std::atomic<double> least_share{1e5};
}

int threads_for(double nanoseconds, int n_jobs) {
    const double share = least_share.load(std::memory_order_relaxed);
    const double most = std::max(n_jobs, 1);
    return static_cast<int>(nanoseconds >= share * most ? most : std::max(nanoseconds / share, 1.0));
}

void set_least_share(double nanoseconds) { least_share = nanoseconds; }

void parallel_for(std::size_t n_tasks, int n_jobs, const std::function<void(std::size_t, int)>& task) {
    const int threads = static_cast<int>(std::min<std::size_t>(std::max(n_jobs, 1), n_tasks));
    if (threads <= 1) {
        for (std::size_t i = 0; i < n_tasks; ++i) {
            poll();
            task(i, 0);
        }
        return;
    }
    auto job = std::make_shared<Job>();
    job->n_tasks = n_tasks;
    job->task = &task;
    job->workers = 1;  // worker 0 is the caller
    job->running = threads - 1;
    pool()->submit(job, threads - 1);
    job->work(0);
    pool()->withdraw(job);
    stay_awake_for([&] { return job->running == 0; });
    job->wait();
}

}  // namespace bilsh
