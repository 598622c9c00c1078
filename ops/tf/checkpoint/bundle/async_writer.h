// SPDX-License-Identifier: Apache-2.0
// Writes to a file on another thread, from one of two buffers, while the caller fills the other.
#ifndef SOK_OPS_TF_CHECKPOINT_BUNDLE_ASYNC_WRITER_H_
#define SOK_OPS_TF_CHECKPOINT_BUNDLE_ASYNC_WRITER_H_

#include <array>
#include <cstddef>
#include <functional>
#include <future>
#include <utility>
#include <vector>

namespace sok {

/// Passes bytes to a function on other threads, in order. For one caller.
class AsyncWriter {
 public:
  using Write = std::function<void(const char* bytes, size_t num_bytes)>;

  explicit AsyncWriter(Write write) : write_(std::move(write)) {}

  /// A buffer of `num_bytes`, valid until Put. Waits for a free one. Rethrows exceptions of
  /// `write`.
  char* Buffer(size_t num_bytes) {
    Await(written_[next_]);
    std::vector<char>& buffer = buffers_[next_];
    if (buffer.size() < num_bytes) buffer.resize(num_bytes);
    return buffer.data();
  }
  /// Writes the first `num_bytes` of the buffer, once those before are written.
  void Put(size_t num_bytes) {
    const auto write = [this, before = written_[1 - next_], bytes = buffers_[next_].data(),
                        num_bytes] {
      Await(before);
      write_(bytes, num_bytes);
    };
    written_[next_] = std::async(std::launch::async, write);
    next_ = 1 - next_;
  }
  /// Returns when all bytes have been written. Rethrows exceptions of `write`.
  void Finish() const {
    for (const auto& each : written_) Await(each);
  }

 private:
  using Written = std::shared_future<void>;

  static void Await(const Written& written) {
    if (written.valid()) written.get();
  }

  const Write write_;
  std::array<std::vector<char>, 2> buffers_;
  size_t next_ = 0;                 // the caller's
  std::array<Written, 2> written_;  // by buffer; their end waits for the writes
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_BUNDLE_ASYNC_WRITER_H_
