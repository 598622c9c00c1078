// SPDX-License-Identifier: Apache-2.0
// Writes to a file on a thread of its own, from two buffers, while the caller fills the next one.
#ifndef SOK_OPS_TF_CHECKPOINT_BUNDLE_ASYNC_WRITER_H_
#define SOK_OPS_TF_CHECKPOINT_BUNDLE_ASYNC_WRITER_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace sok {

/// Passes bytes to a function on a thread of its own, in order. For one caller.
class AsyncWriter {
 public:
  using Write = std::function<void(const char* bytes, size_t num_bytes)>;

  explicit AsyncWriter(Write write);
  /// Drops bytes that are not written yet.
  ~AsyncWriter();
  AsyncWriter(const AsyncWriter&) = delete;
  AsyncWriter& operator=(const AsyncWriter&) = delete;

  /// A buffer of `num_bytes`, valid until Put. Waits for a free one. Rethrows exceptions of
  /// `write`.
  char* Buffer(size_t num_bytes);
  /// Queues the first `num_bytes` of the buffer for writing.
  void Put(size_t num_bytes);
  /// Returns when all bytes have been written. Rethrows exceptions of `write`.
  void Finish();

 private:
  static constexpr size_t kNumBuffers = 2;

  void Run();
  void Wait(std::unique_lock<std::mutex>& lock, size_t most_waiting);

  const Write write_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::vector<char>, kNumBuffers> buffers_;
  std::array<size_t, kNumBuffers> num_bytes_{};  // bytes waiting in each buffer
  size_t next_buffer_ = 0;                       // the caller's
  size_t num_waiting_ = 0;                       // buffers whose bytes are not written yet
  bool is_ending_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_BUNDLE_ASYNC_WRITER_H_
