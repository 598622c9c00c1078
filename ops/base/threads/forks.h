// SPDX-License-Identifier: Apache-2.0
// What a child of fork() must know: it has one thread, and whatever the others were in the middle
// of stays as it was when the child was made.
#ifndef SOK_OPS_BASE_THREADS_FORKS_H_
#define SOK_OPS_BASE_THREADS_FORKS_H_

#include <atomic>
#include <cstdint>

namespace sok {

/// How often fork() made the processes up to this one: differs between a child and its parent.
int ForkCount();

/// The calls of an object that are in progress. In a child of fork() an object that another thread
/// was using then is half changed, and its locks are held for ever.
class CallsInProgress {
 public:
  /// One of them, as long as it lives. Throws kFailedPrecondition if WereInterrupted(); `name` is
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

  /// Whether this is a child in which calls will never end.
  bool WereInterrupted() const;

 private:
  void Begin(const char* name);

  // The ForkCount() of the process that made the last call, then 32 bits: calls in progress there.
  std::atomic<uint64_t> state_{0};
};

}  // namespace sok

#endif  // SOK_OPS_BASE_THREADS_FORKS_H_
