// SPDX-License-Identifier: Apache-2.0
// Bytes on their way to a file, while the next ones are made.
#ifndef SOK_OPS_TF_WRITE_BEHIND_H_
#define SOK_OPS_TF_WRITE_BEHIND_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace sok {

/// Hands bytes to a function on a thread of its own, in order. For one caller.
class WriteBehind {
 public:
  using Write = std::function<void(const char* bytes, size_t num_bytes)>;

  explicit WriteBehind(Write write);
  /// Drops what has not been written.
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  /// Room for `num_bytes`, until Put. Waits while there is none. Throws what `write` has thrown.
  char* Room(size_t num_bytes);
  /// Lets the bytes that stand in the room be written.
  void Put(size_t num_bytes);
  /// Returns when all has been written. Throws what `write` has thrown.
  void Finish();

 private:
  static constexpr size_t kNumRooms = 2;

  void Run();
  void Wait(std::unique_lock<std::mutex>& lock, size_t most_waiting);

  const Write write_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::vector<char>, kNumRooms> rooms_;
  std::array<size_t, kNumRooms> num_bytes_{};  // that wait in each room
  size_t next_room_ = 0;                       // of the caller
  size_t num_waiting_ = 0;                     // rooms whose bytes are not written yet
  bool is_ending_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_WRITE_BEHIND_H_
