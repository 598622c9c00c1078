// SPDX-License-Identifier: Apache-2.0
// Sends the ranks' parts of a save to rank 0 if only it writes.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ops/formats/rows.h"
#include "ops/tf/ranks/rank_communicator.h"

namespace sok {

/// Works in rounds: in each, every other rank sends some bytes to rank 0, and all ranks announce
/// whether they have more. Rounds end when none has. All ranks take part in each, with the same
/// communicator.
class GatheredParts {
 public:
  explicit GatheredParts(RankCommunicator& communicator) : communicator_(communicator) {}

  /// On ranks other than 0: sends bytes, in as many rounds as needed, in multiples of an int64.
  void Send(const char* data, size_t num_bytes);
  /// On ranks other than 0, after the last bytes: returns when no rank has more.
  void EndSending();
  /// On rank 0: calls use(rank, bytes, num_bytes) for all received bytes, until no rank has more.
  using Use = std::function<void(int64_t rank, const char* data, size_t num_bytes)>;
  void Receive(const Use& use);

 private:
  bool Round(bool has_more, const char* data, size_t num_bytes, const Use& use);

  RankCommunicator& communicator_;
};

/// Rank 0's sink gets the columns of all ranks, one rank after the other. On other ranks it sends
/// them.
class GatheredRows : public RowsSink {
 public:
  /// `sink`: of rank 0.
  GatheredRows(RankCommunicator& communicator, RowsSink* sink)
      : communicator_(communicator),
        parts_(communicator),
        rank_(communicator.rank()),
        sink_(sink) {}

  void Begin(size_t column, int64_t width) override;
  char* Buffer(size_t num_bytes) override;
  void Append(size_t num_bytes) override;
  void End() override;

 private:
  RankCommunicator& communicator_;
  GatheredParts parts_;
  const int64_t rank_;
  RowsSink* const sink_;
  std::vector<char> buffer_;
};

}  // namespace sok
