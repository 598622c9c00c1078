// SPDX-License-Identifier: Apache-2.0
// An all-to-all between the processes of one host, through memory that all of them map.
#ifndef SOK_OPS_EXCHANGE_SHARED_MEMORY_LINK_H_
#define SOK_OPS_EXCHANGE_SHARED_MEMORY_LINK_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/exchange/proposal.h"

namespace sok {

/// Where the others find the memory of a rank; what is there proves to be it by the token.
struct SharedMemoryAddress {
  int64_t process_id = 0;
  int64_t descriptor = -1;  // in that process
  uint64_t token = 0;
};

/// Each rank writes what it sends into memory of its own, which has no name and ends with the
/// processes that hold it, and reads what the others have written for it. Two copies take turns: a
/// rank that has got the messages of a round knows that nobody reads those of the round before.
///
/// One thread at a time sends and receives, in turn; Close may come from any.
class SharedMemoryLink {
 public:
  /// ranks: those of this host, whose order numbers them here; place: of this one among them.
  /// most_bytes: what Send sends at most, to all ranks the same share. stays_awake: this rank has a
  /// processor for itself, so that a thread which waits with a limit need not give it up, and is
  /// not woken later than it could go on. Throws kIo.
  SharedMemoryLink(int place, std::vector<int> ranks, int64_t most_bytes, bool stays_awake = false);
  ~SharedMemoryLink();
  SharedMemoryLink(const SharedMemoryLink&) = delete;
  SharedMemoryLink& operator=(const SharedMemoryLink&) = delete;

  SharedMemoryAddress address() const;

  const std::vector<int>& ranks() const { return ranks_; }
  bool stays_awake() const { return stays_awake_; }

  /// Maps what all ranks have; by place, this one's included. Throws kIo: a process is not of this
  /// host, not of this user, or gone.
  void Connect(const std::vector<SharedMemoryAddress>& addresses);

  /// Begins a round: sends each rank its message, by place, and does not wait. Of the own one,
  /// which stays where it is, no more than the first piece is received. Throws kInvalidArgument:
  /// one is longer than a share of most_bytes.
  void Send(const std::vector<Pieces>& messages);

  /// What all ranks have sent in this round, by place, when it is there: until the next Send. With
  /// a limit, nothing where some of it has not come in time; it may be called again. Throws
  /// kAborted: a process has ended, or one has closed its link.
  std::optional<std::vector<std::string_view>> Receive(
      std::optional<std::chrono::nanoseconds> time_limit = std::nullopt);

  /// Receive ends on all ranks, where it waits for this one.
  void Close();

 private:
  struct Mailbox;
  struct Head;
  struct Peer {
    Head* head = nullptr;
    int process = -1;  // a descriptor of the process; -1: this one, or the kernel has none
    int64_t process_id = 0;
  };

  using Clock = std::chrono::steady_clock;

  Mailbox& MailboxOf(Head* head, size_t destination) const;
  char* MessageOf(Head* head, size_t destination) const;
  void SendTo(size_t destination, const Pieces& pieces);
  std::string_view MessageFrom(size_t source) const;
  bool Await(size_t source, Clock::time_point until, bool stays_awake) const;
  bool HasCome(uint32_t round) const;
  bool HasEnded(size_t place) const;

  const size_t place_;
  const std::vector<int> ranks_;
  const size_t message_bytes_;  // the most for one rank
  const size_t num_bytes_;      // of the memory of a rank
  const uint64_t token_;
  const bool stays_awake_;
  int descriptor_ = -1;
  std::vector<Peer> peers_;  // this rank's own among them
  std::string_view own_message_;
  uint32_t round_ = 0;
  std::atomic<bool> is_closed_{false};
};

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_SHARED_MEMORY_LINK_H_
