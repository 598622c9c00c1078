// SPDX-License-Identifier: Apache-2.0
// Gathers a table's entries from all ranks on rank 0, in parts of limited memory.
#ifndef SOK_OPS_TF_CHECKPOINT_DUMP_TABLE_GATHER_H_
#define SOK_OPS_TF_CHECKPOINT_DUMP_TABLE_GATHER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "ops/tf/ranks/rank_communicator.h"
#include "ops/tf/tables/table_contents.h"

namespace sok {

/// One gather; every rank creates one with its communicator.
class TableGather {
 public:
  using Use = std::function<void(int64_t key, const char* row)>;

  TableGather(RankCommunicator& communicator, const TableOptions& options);

  /// For ranks other than 0.
  void Send(TableContents& contents);

  /// For rank 0: calls use(key, row [dim floats]) for its own entries, then for those of other
  /// ranks.
  void Receive(TableContents& contents, const Use& use);

 private:
  int64_t NumParts(int64_t num_keys);
  std::vector<char> Part(TableContents& contents, int64_t part) const;
  static void ForEach(TableContents& contents, int64_t begin, int64_t end, const Use& use);

  RankCommunicator& communicator_;
  const bool is_replicated_;  // rank 0 has everything
  const size_t entry_bytes_;  // key and row
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_DUMP_TABLE_GATHER_H_
