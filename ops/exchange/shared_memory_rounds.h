// SPDX-License-Identifier: Apache-2.0
// The rounds of a rank whose ranks share memory. Knows no framework.
#ifndef SOK_OPS_EXCHANGE_SHARED_MEMORY_ROUNDS_H_
#define SOK_OPS_EXCHANGE_SHARED_MEMORY_ROUNDS_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>

#include "ops/exchange/coordinator.h"
#include "ops/exchange/message_parts.h"
#include "ops/exchange/shared_memory_link.h"

namespace sok {

/// A round is driven by the thread that has asked for it, where it can: no thread has to be woken,
/// and what came is in the caches of the core that goes on with it. That thread waits for other
/// ranks for a moment only: others of its step may need it. One of the rounds' own drives the rest.
class SharedMemoryRounds {
 public:
  /// link: of all ranks.
  SharedMemoryRounds(std::shared_ptr<Coordinator> coordinator,
                     std::shared_ptr<SharedMemoryLink> link);

  /// Until the exchanges end, by the one thread that does nothing else. Throws what has ended them,
  /// on whichever thread.
  void Run();

  /// A round, if one is due and no other thread drives one; calls `done` of requests.
  void RunOneHere();

  /// For how long the part that is on its way has been; 0 where none is.
  double PartSeconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  class Turn;

  bool Drive(std::optional<Clock::duration> time_limit);
  void SendPart();
  void DriveHere();

  const std::shared_ptr<Coordinator> coordinator_;
  const std::shared_ptr<SharedMemoryLink> link_;

  std::mutex mutex_;
  std::condition_variable turn_ended_;
  bool is_driven_ = false;

  // Of the thread that drives.
  std::unique_ptr<MessageParts> parts_;  // null between rounds
  std::exception_ptr error_;             // has ended the exchanges
  std::atomic<Clock::rep> part_began_{0};

  std::atomic<int> num_left_{0};  // to Run: how many more rounds are, since others came late
  int next_left_ = 1;             // how many will be, when they do so again
};

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_SHARED_MEMORY_ROUNDS_H_
