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
/// One thread at a time sends and receives; Close may come from any.
class SharedMemoryLink {
 public:
  /// most_bytes: what AllToAll sends at most, to all ranks the same share. Throws kIo.
  SharedMemoryLink(int rank, int num_ranks, int64_t most_bytes);
  ~SharedMemoryLink();
  SharedMemoryLink(const SharedMemoryLink&) = delete;
  SharedMemoryLink& operator=(const SharedMemoryLink&) = delete;

  SharedMemoryAddress address() const;

  /// Maps what all ranks have; by rank, this one's included. Throws kIo: a process is not of this
  /// host, not of this user, or gone.
  void Connect(const std::vector<SharedMemoryAddress>& addresses);

  /// Sends what is given by destination rank, for this rank one piece at most, and returns what all
  /// ranks sent to this one, by source rank, when it is there: until the next call, and what is
  /// this rank's own where it stands. Throws kAborted: a process has ended, or one has closed its
  /// link.
  std::vector<std::string_view> AllToAll(const std::vector<Pieces>& by_rank) {
    Send(by_rank);
    return *Receive(by_rank, std::nullopt);
  }

  /// The two halves of AllToAll. Receive gives nothing where a message has not come in time, and
  /// may be called again; without a limit it waits.
  void Send(const std::vector<Pieces>& by_rank);
  std::optional<std::vector<std::string_view>> Receive(
      const std::vector<Pieces>& by_rank, std::optional<std::chrono::nanoseconds> time_limit);

  /// AllToAll ends on all ranks, where it waits for this one.
  void Close();

 private:
  struct Mailbox;
  struct Head;
  struct Peer {
    Head* head = nullptr;
    int process = -1;  // a descriptor of the process; -1: this one, or the kernel has none
    int64_t process_id = 0;
  };

  Mailbox& MailboxOf(Head* head, int destination) const;
  char* MessageOf(Head* head, int destination) const;
  using Clock = std::chrono::steady_clock;

  void Send(int destination, const Pieces& pieces);
  std::string_view MessageFrom(int source) const;
  bool Await(int source, Clock::time_point until) const;
  bool HasCome(uint32_t round) const;
  bool HasEnded(int rank) const;

  const int rank_;
  const int num_ranks_;
  const int64_t message_bytes_;  // the most for one rank
  const size_t num_bytes_;       // of the memory of a rank
  const uint64_t token_;
  int descriptor_ = -1;
  std::vector<Peer> peers_;  // this rank's own among them
  uint32_t round_ = 0;
  std::atomic<bool> is_closed_{false};
};

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_SHARED_MEMORY_LINK_H_
