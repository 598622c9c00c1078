// SPDX-License-Identifier: Apache-2.0
// A shared mutex on which a steady stream of readers cannot starve a writer.
#pragma once

#include <mutex>
#include <shared_mutex>

namespace sok {

/// For std::unique_lock and std::shared_lock. Readers that arrive while a writer waits queue behind
/// it; with glibc's std::shared_mutex they would overtake it.
class FairSharedMutex {
 public:
  void lock() {
    std::lock_guard<std::mutex> turn(turn_);
    mutex_.lock();
  }
  void unlock() { mutex_.unlock(); }

  void lock_shared() {
    std::lock_guard<std::mutex> turn(turn_);
    mutex_.lock_shared();
  }
  bool try_lock_shared() {
    std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
    return turn && mutex_.try_lock_shared();
  }
  void unlock_shared() { mutex_.unlock_shared(); }

 private:
  std::mutex turn_;
  std::shared_mutex mutex_;
};

}  // namespace sok
