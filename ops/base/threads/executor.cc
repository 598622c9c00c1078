// SPDX-License-Identifier: Apache-2.0
// The two executors of the core: the caller's thread alone, and a small thread pool.
#include "ops/base/threads/executor.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "ops/base/error.h"
#include "ops/base/threads/forks.h"
#include "ops/base/threads/shared_loop.h"

namespace sok {
namespace {

using Body = SharedLoop::Body;

class CallerExecutor : public Executor {
 public:
  int num_threads() const override { return 1; }
  void ParallelFor(int64_t count, int64_t, const Body& body) override {
    if (count > 0) body(0, count);
  }
};

class ThreadPool {
 public:
  explicit ThreadPool(int num_threads) {
    threads_.reserve(static_cast<size_t>(num_threads) - 1);
    try {
      for (int i = 1; i < num_threads; ++i) threads_.emplace_back([this] { HelpUntilStopped(); });
    } catch (const std::system_error&) {
      // The system refused another thread: the existing ones do all the work.
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
    const int64_t num_parts = SharedLoop::NumParts(count, item_nanoseconds, num_threads());
    if (num_parts == 1) return body(0, count);
    const auto loop = std::make_shared<SharedLoop>(count, num_parts, body);
    Share(loop, num_parts - 1);
    loop->RunParts();
    Unshare(loop);
    loop->Await();
  }

 private:
  void Share(const std::shared_ptr<SharedLoop>& loop, int64_t num_helpers_wanted) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      loops_.push_back(loop);
    }
    const int64_t num_wakes = std::min<int64_t>(num_helpers_wanted, num_threads() - 1);
    for (int64_t i = 0; i < num_wakes; ++i) work_arrived_.notify_one();
  }

  void Unshare(const std::shared_ptr<SharedLoop>& loop) {
    std::lock_guard<std::mutex> lock(mutex_);
    loops_.remove(loop);
  }

  void HelpUntilStopped() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!is_stopped_) {
      const std::shared_ptr<SharedLoop> loop = FirstWithParts();
      if (!loop) {
        work_arrived_.wait(lock);
        continue;
      }
      lock.unlock();
      loop->RunParts();
      lock.lock();
    }
  }

  std::shared_ptr<SharedLoop> FirstWithParts() const {
    for (const std::shared_ptr<SharedLoop>& loop : loops_) {
      if (loop->HasParts()) return loop;
    }
    return nullptr;
  }

  std::mutex mutex_;
  std::condition_variable work_arrived_;
  std::list<std::shared_ptr<SharedLoop>> loops_;
  bool is_stopped_ = false;
  std::vector<std::thread> threads_;
};

/// A thread pool that a child of fork() neither uses nor destroys: the child does not have its
/// threads, and their locks and waits stay as they were.
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

/// The shared executors, by number of threads. A child of fork() has its own: the parent's lock may
/// have been held at the fork.
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
