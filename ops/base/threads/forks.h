// SPDX-License-Identifier: Apache-2.0
// Detects forks: a child of fork() has one thread, and the state that other threads were changing
// stays half changed.
#pragma once

#include <atomic>
#include <cstdint>

namespace sok {

/// How many calls of fork() lead to this process: differs between a child and its parent.
int ForkCount();

/// Counts the calls in progress on an object. In a child of fork(), an object that another thread
/// was using at the fork is half changed, and its locks are held for ever.
class CallsInProgress {
 public:
  /// One call, for as long as it lives. Throws kFailedPrecondition if WereInterrupted(); `name` is
  /// the object's.
  class Call {
   public:
    Call(CallsInProgress& calls, const char* name) : calls_(calls) { calls_.Begin(name); }
    ~Call() { --calls_.state_; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    CallsInProgress& calls_;
  };

  /// Whether this process is a child in which calls of the parent will never end.
  bool WereInterrupted() const;

 private:
  void Begin(const char* name);

  // The ForkCount() of the process that made the last call, then 32 bits for its calls in progress.
  std::atomic<uint64_t> state_{0};
};

}  // namespace sok
