// SPDX-License-Identifier: Apache-2.0
// Writes to a file on another thread, while the caller fills further buffers.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ops/base/memory/reserved_memory.h"

namespace sok {

/// Passes bytes to a function on another thread, in order. For one caller. The thread begins when
/// the caller would have to wait for memory, or for the end: until then the caller, who may hold up
/// others, has the processors.
class AsyncWriter {
 public:
  using Write = std::function<void(const char* bytes, size_t num_bytes)>;

  /// `most_bytes`: of all buffers. Two are allowed in any case.
  explicit AsyncWriter(Write write, size_t most_bytes = 0)
      : write_(std::move(write)), most_bytes_(most_bytes) {}
  /// Without Finish, what waits is dropped.
  ~AsyncWriter() {
    std::unique_lock<std::mutex> lock(mutex_);
    jobs_.clear();
    lock.unlock();
    if (thread_.valid()) thread_.wait();
  }
  AsyncWriter(const AsyncWriter&) = delete;
  AsyncWriter& operator=(const AsyncWriter&) = delete;

  /// A buffer of `num_bytes`, valid until Put. Waits for memory. Rethrows exceptions of `write`.
  char* Buffer(size_t num_bytes) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto has_memory = [&] {
      return num_waiting_ <= 1 || bytes_waiting_ + num_bytes <= most_bytes_;
    };
    if (!has_memory()) Begin();
    changed_.wait(lock, [&] { return error_ || has_memory(); });
    RethrowError();
    if (buffer_.size_bytes() >= num_bytes) return Data();
    const auto fits = [&](const ReservedMemory& each) { return each.size_bytes() >= num_bytes; };
    auto found = std::find_if(free_.begin(), free_.end(), fits);
    if (found == free_.end() && !free_.empty()) --found;
    if (found != free_.end()) {
      buffer_ = std::move(*found);
      free_.erase(found);
    }
    lock.unlock();
    if (!fits(buffer_)) {
      const bool is_large = num_bytes >= kHugePageBytes;
      buffer_ = ReservedMemory();  // before there is another
      buffer_ = ReservedMemory(num_bytes, is_large ? PageSize::kHuge : PageSize::kSmall);
    }
    return Data();
  }
  /// Writes the first `num_bytes` of the buffer, once all before are written.
  void Put(size_t num_bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    RethrowError();
    bytes_waiting_ += buffer_.size_bytes();
    ++num_waiting_;
    jobs_.push_back(
        [this, buffer = std::make_shared<ReservedMemory>(std::move(buffer_)), num_bytes] {
          write_(static_cast<const char*>(buffer->data()), num_bytes);
          const std::lock_guard<std::mutex> in_use(mutex_);
          bytes_waiting_ -= buffer->size_bytes();
          --num_waiting_;
          free_.push_back(std::move(*buffer));
        });
  }
  /// Calls `then` on that thread, once all before are written.
  void Then(std::function<void()> then) {
    const std::lock_guard<std::mutex> lock(mutex_);
    jobs_.push_back(std::move(then));
  }
  /// Returns when all bytes have been written, and frees the buffers. Rethrows exceptions.
  void Finish() {
    std::unique_lock<std::mutex> lock(mutex_);
    Begin();
    changed_.wait(lock, [&] { return error_ || (jobs_.empty() && !is_running_); });
    RethrowError();
    free_.clear();
  }

 private:
  static constexpr size_t kHugePageBytes = 2 << 20;

  char* Data() const { return static_cast<char*>(buffer_.data()); }

  // The calls below need mutex_.
  void RethrowError() const {
    if (error_) std::rethrow_exception(error_);
  }
  /// Unless the thread runs.
  void Begin() {
    if (is_running_ || error_ || jobs_.empty()) return;
    thread_ = std::async(std::launch::async, [this] { Run(); });
    is_running_ = true;
  }

  /// Until no job is left, or one has failed.
  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!jobs_.empty() && !error_) {
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      std::exception_ptr error;
      try {
        job();
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      error_ = error;
      changed_.notify_all();
    }
    is_running_ = false;
    changed_.notify_all();
  }

  const Write write_;
  const size_t most_bytes_;
  ReservedMemory buffer_;  // the caller's
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::vector<ReservedMemory> free_;
  size_t bytes_waiting_ = 0;
  int num_waiting_ = 0;
  bool is_running_ = false;
  std::exception_ptr error_;
  std::future<void> thread_;  // the last one; its destructor waits
};

}  // namespace sok
