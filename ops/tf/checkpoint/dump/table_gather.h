// SPDX-License-Identifier: Apache-2.0
// The entries of a table from all ranks to rank 0, in parts that memory holds.
#ifndef SOK_OPS_TF_CHECKPOINT_DUMP_TABLE_GATHER_H_
#define SOK_OPS_TF_CHECKPOINT_DUMP_TABLE_GATHER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "ops/tf/ranks/rank_communicator.h"
#include "ops/tf/tables/table_contents.h"

namespace sok {

/// One gather; all ranks make one with their communicators.
class TableGather {
 public:
  using Use = std::function<void(int64_t key, const char* row)>;

  TableGather(RankCommunicator& communicator, const TableOptions& options);

  /// On ranks other than 0.
  void Send(TableContents& contents);

  /// On rank 0: use(key, row [dim floats]) for its own entries, then for those of the others.
  void Receive(TableContents& contents, const Use& use);

 private:
  int64_t NumParts(int64_t num_keys);
  std::vector<char> Part(TableContents& contents, int64_t part) const;
  static void ForEach(TableContents& contents, int64_t begin, int64_t end, const Use& use);

  RankCommunicator& communicator_;
  const bool is_replicated_;  // the others have nothing that rank 0 has not
  const size_t entry_bytes_;  // key, then row
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_DUMP_TABLE_GATHER_H_
