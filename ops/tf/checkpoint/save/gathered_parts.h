// SPDX-License-Identifier: Apache-2.0
// What ranks write of a checkpoint, on its way to rank 0, where it alone has the disk.
#ifndef SOK_OPS_TF_CHECKPOINT_SAVE_GATHERED_PARTS_H_
#define SOK_OPS_TF_CHECKPOINT_SAVE_GATHERED_PARTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ops/tf/ranks/rank_communicator.h"

namespace sok {

/// In rounds: in each, every other rank has some bytes for rank 0, and all say whether there will
/// be more. Rounds end when none has more. All ranks are in them, with the same communicator.
class GatheredParts {
 public:
  explicit GatheredParts(RankCommunicator& communicator) : communicator_(communicator) {}

  /// Of another rank than 0: sends bytes, in as many rounds as it takes.
  void Send(const char* data, size_t num_bytes);
  /// Of another rank than 0, after its last bytes: returns when no rank has more.
  void EndSending();
  /// Of rank 0: calls use(rank, bytes, num_bytes) for what comes, until no rank has more.
  using Use = std::function<void(int64_t rank, const char* data, size_t num_bytes)>;
  void Receive(const Use& use);

 private:
  bool Round(bool has_more, const char* data, size_t num_bytes, const Use& use);

  RankCommunicator& communicator_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_SAVE_GATHERED_PARTS_H_
