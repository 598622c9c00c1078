// SPDX-License-Identifier: Apache-2.0
// The two executors of the core: the caller's thread alone, and a small pool of threads.
#include "ops/base/executor.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <list>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "ops/base/error.h"
#include "ops/base/forks.h"

namespace sok {
namespace {

using Body = std::function<void(int64_t begin, int64_t end)>;

// Waking a thread costs some 10 microseconds; a part should last a few times that.
constexpr int64_t kPartNanoseconds = 30'000;
// More parts than threads, so that a thread that the system takes away holds up little.
constexpr int64_t kPartsPerThread = 4;

class CallerExecutor : public Executor {
 public:
  int num_threads() const override { return 1; }
  void ParallelFor(int64_t count, int64_t, const Body& body) override {
    if (count > 0) body(0, count);
  }
};

/// One ParallelFor in progress. Its parts are taken one by one by whoever is free.
class Loop {
 public:
  Loop(int64_t count, int64_t num_parts, const Body& body)
      : count_(count), num_parts_(num_parts), body_(body) {}

  void RunParts() {
    for (int64_t part; (part = next_part_.fetch_add(1)) < num_parts_;) RunPart(part);
  }
  bool HasParts() const { return next_part_.load() < num_parts_; }
  void Rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

  int num_helpers = 0;  // pool threads inside RunParts; guarded by the pool's mutex

 private:
  int64_t PartBegin(int64_t part) const {
    return count_ / num_parts_ * part + std::min(part, count_ % num_parts_);
  }
  void RunPart(int64_t part) {
    try {
      body_(PartBegin(part), PartBegin(part + 1));
    } catch (...) {
      std::lock_guard<std::mutex> lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }

  const int64_t count_;
  const int64_t num_parts_;
  const Body& body_;
  std::atomic<int64_t> next_part_{0};
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

class ThreadPool {
 public:
  explicit ThreadPool(int num_threads) {
    threads_.reserve(static_cast<size_t>(num_threads) - 1);
    try {
      for (int i = 1; i < num_threads; ++i) threads_.emplace_back([this] { HelpUntilStopped(); });
    } catch (const std::system_error&) {
      // The system gives no more threads: those that there are do all the work.
    }
  }

  ~ThreadPool() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_stopped_ = true;
    }
    work_arrived_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  int num_threads() const { return static_cast<int>(threads_.size()) + 1; }

  void ParallelFor(int64_t count, int64_t item_nanoseconds, const Body& body) {
    const int64_t min_items =
        std::max<int64_t>(1, kPartNanoseconds / std::max<int64_t>(1, item_nanoseconds));
    const int64_t num_parts =
        std::min(std::max<int64_t>(1, count / min_items), num_threads() * kPartsPerThread);
    if (num_parts == 1 || threads_.empty()) return body(0, count);
    Loop loop(count, num_parts, body);
    Share(&loop, num_parts - 1);
    loop.RunParts();
    AwaitHelpers(&loop);
    loop.Rethrow();
  }

 private:
  void Share(Loop* loop, int64_t num_helpers_wanted) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      loops_.push_back(loop);
    }
    const int64_t num_wakes = std::min<int64_t>(num_helpers_wanted, num_threads() - 1);
    for (int64_t i = 0; i < num_wakes; ++i) work_arrived_.notify_one();
  }

  /// Returns when no thread of the pool knows the loop any more: it lives on the caller's stack.
  void AwaitHelpers(Loop* loop) {
    std::unique_lock<std::mutex> lock(mutex_);
    loops_.remove(loop);
    helper_left_.wait(lock, [&] { return loop->num_helpers == 0; });
  }

  void HelpUntilStopped() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!is_stopped_) {
      Loop* loop = FirstWithParts();
      if (loop == nullptr) {
        work_arrived_.wait(lock);
        continue;
      }
      ++loop->num_helpers;
      lock.unlock();
      loop->RunParts();
      lock.lock();
      if (--loop->num_helpers == 0) helper_left_.notify_all();
    }
  }

  Loop* FirstWithParts() const {
    for (Loop* loop : loops_) {
      if (loop->HasParts()) return loop;
    }
    return nullptr;
  }

  std::mutex mutex_;
  std::condition_variable work_arrived_;
  std::condition_variable helper_left_;
  std::list<Loop*> loops_;
  bool is_stopped_ = false;
  std::vector<std::thread> threads_;
};

/// A pool of threads, which a child of fork() neither uses nor destroys: its threads are not there,
/// and what they held and waited for stays as it was.
class ThreadExecutor : public Executor {
 public:
  explicit ThreadExecutor(int num_threads) : pool_(new ThreadPool(num_threads)) {}
  ~ThreadExecutor() override {
    if (!IsInChild()) delete pool_;
  }

  int num_threads() const override { return IsInChild() ? 1 : pool_->num_threads(); }

  void ParallelFor(int64_t count, int64_t item_nanoseconds, const Body& body) override {
    if (count <= 0) return;
    if (IsInChild()) return body(0, count);
    pool_->ParallelFor(count, item_nanoseconds, body);
  }

 private:
  bool IsInChild() const { return ForkCount() != fork_count_; }

  const int fork_count_ = ForkCount();
  ThreadPool* const pool_;
};

/// The executors that are shared, by number of threads. A child of fork() has others: its parent's
/// lock may have been held when it was made.
struct SharedExecutors {
  explicit SharedExecutors(int count) : fork_count(count) {}

  const int fork_count;
  std::mutex mutex;
  std::map<int, std::weak_ptr<Executor>> by_threads;
};

SharedExecutors& OfThisProcess() {
  static std::atomic<SharedExecutors*> current{new SharedExecutors(ForkCount())};
  SharedExecutors* found = current;
  while (found->fork_count != ForkCount()) {
    auto* made = new SharedExecutors(ForkCount());
    if (current.compare_exchange_strong(found, made)) return *made;
    delete made;
  }
  return *found;
}

}  // namespace

Executor& SerialExecutor() {
  static CallerExecutor executor;
  return executor;
}

std::unique_ptr<Executor> MakeThreadExecutor(int num_threads) {
  if (num_threads < 1) {
    Throw(ErrorCode::kInvalidArgument, "num_threads must be at least 1, got ", num_threads);
  }
  return std::make_unique<ThreadExecutor>(num_threads);
}

std::shared_ptr<Executor> SharedThreadExecutor(int num_threads) {
  SharedExecutors& shared = OfThisProcess();
  const std::lock_guard<std::mutex> lock(shared.mutex);
  std::weak_ptr<Executor>& known = shared.by_threads[num_threads];
  std::shared_ptr<Executor> executor = known.lock();
  if (!executor) {
    executor = MakeThreadExecutor(num_threads);
    known = executor;
  }
  return executor;
}

}  // namespace sok
