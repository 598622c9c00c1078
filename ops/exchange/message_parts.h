// SPDX-License-Identifier: Apache-2.0
// One all-to-all of messages of any size, as several of a limited size. Sends nothing itself.
#ifndef SOK_OPS_EXCHANGE_MESSAGE_PARTS_H_
#define SOK_OPS_EXCHANGE_MESSAGE_PARTS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/exchange/arrivals.h"
#include "ops/exchange/proposal.h"

namespace sok {

/// The messages of a round, on their way. Each begins with its sizes and that of the longest one of
/// its sender, so that all ranks know from the first part how many there will be.
class MessageParts {
 public:
  explicit MessageParts(Proposal proposal);

  /// The sizes of the next part, by destination rank.
  const std::vector<int64_t>& send_bytes() const { return send_bytes_; }
  /// It, by destination rank.
  const std::vector<Pieces>& pieces() const { return pieces_; }
  /// It in one place, by destination rank, where the proposal has been joined.
  const char* data() const { return proposal_.data.data() + part_begin_; }
  int64_t num_bytes() const;

  /// Takes what came for it, by source rank. True: it was the last one, and received() is complete.
  /// Throws kIo where it is not what ranks send.
  bool Take(const std::vector<std::string_view>& part);

  /// What all ranks sent; valid as long as what the last Take was given.
  const Received& received() const { return received_; }

 private:
  void SetNext();
  void BeginToTake(const std::vector<std::string_view>& part);
  void MakeRoom(const std::vector<MessageSizes>& sizes);

  Proposal proposal_;
  int64_t part_ = 0;
  int64_t part_begin_ = 0;
  std::vector<int64_t> send_bytes_;
  std::vector<Pieces> pieces_;
  int64_t num_parts_ = 0;                     // 0: not known yet
  std::vector<std::vector<char>> by_source_;  // of several parts
  std::vector<size_t> kept_bytes_;            // of each of them
  Received received_;
};

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_MESSAGE_PARTS_H_
