// SPDX-License-Identifier: Apache-2.0
// One all-to-all of messages of any size, as several of a limited size. Sends nothing itself.
#ifndef SOK_OPS_EXCHANGE_MESSAGE_PARTS_H_
#define SOK_OPS_EXCHANGE_MESSAGE_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/exchange/coordinator.h"

namespace sok {

/// The messages of a round, on their way. Each begins with the bytes of the longest one of its
/// sender (Message), so that all ranks know from the first part how many there will be.
class MessageParts {
 public:
  /// `most_bytes`: of a part, sent or received by one rank.
  MessageParts(Proposal proposal, int64_t most_bytes);

  /// The sizes of the next part, by destination rank.
  const std::vector<int64_t>& send_bytes() const { return send_bytes_; }
  /// It, by destination rank; until Take.
  const char* data() const;
  int64_t num_bytes() const;

  /// Takes what came for it, by source rank. True: it was the last one, and received() is complete.
  /// Throws kIo where it is not what ranks send.
  bool Take(const char* data, const std::vector<int64_t>& received_bytes);

  /// What all ranks sent, by source rank; valid as long as what the last Take was given.
  const char* received() const { return received_; }
  const std::vector<int64_t>& received_bytes() const { return received_bytes_; }

 private:
  void SetNext();
  void CountParts(const char* data, const std::vector<int64_t>& received_bytes);

  Proposal proposal_;
  int64_t part_bytes_ = 0;  // for each rank
  int64_t part_ = 0;
  int64_t num_parts_ = 0;  // 0: not known yet
  std::vector<int64_t> send_bytes_;
  std::vector<char> data_;                    // of a part that is not all of the proposal
  std::vector<std::vector<char>> by_source_;  // of several parts
  std::vector<char> joined_;
  const char* received_ = nullptr;
  std::vector<int64_t> received_bytes_;
};

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_MESSAGE_PARTS_H_
