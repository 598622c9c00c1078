// SPDX-License-Identifier: Apache-2.0
// Sends the ranks' parts of a save to rank 0 if only it writes.
#ifndef SOK_OPS_TF_RANKS_GATHERED_PARTS_H_
#define SOK_OPS_TF_RANKS_GATHERED_PARTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ops/tf/ranks/rank_communicator.h"

namespace sok {

/// Works in rounds: in each, every other rank sends some bytes to rank 0, and all ranks announce
/// whether they have more. Rounds end when none has. All ranks take part in each, with the same
/// communicator.
class GatheredParts {
 public:
  /// Bytes are sent in multiples of `unit_bytes`.
  explicit GatheredParts(RankCommunicator& communicator, size_t unit_bytes = 1)
      : communicator_(communicator), unit_bytes_(unit_bytes) {}

  /// On ranks other than 0: sends bytes, in as many rounds as needed.
  void Send(const char* data, size_t num_bytes);
  /// On ranks other than 0, after the last bytes: returns when no rank has more.
  void EndSending();
  /// On rank 0: calls use(rank, bytes, num_bytes) for all received bytes, until no rank has more.
  using Use = std::function<void(int64_t rank, const char* data, size_t num_bytes)>;
  void Receive(const Use& use);

 private:
  bool Round(bool has_more, const char* data, size_t num_bytes, const Use& use);

  RankCommunicator& communicator_;
  const size_t unit_bytes_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_RANKS_GATHERED_PARTS_H_
