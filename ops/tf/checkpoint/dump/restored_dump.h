// SPDX-License-Identifier: Apache-2.0
// Fills a table from a dump that rank 0 reads, block by block.
#ifndef SOK_OPS_TF_CHECKPOINT_DUMP_RESTORED_DUMP_H_
#define SOK_OPS_TF_CHECKPOINT_DUMP_RESTORED_DUMP_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ops/formats/dumps/rows.h"
#include "ops/tf/ranks/rank_communicator.h"
#include "ops/tf/tables/restored_keys.h"
#include "ops/tf/tables/table_contents.h"

namespace sok {

/// Rows with their keys, on the host.
struct RowsBlock {
  int64_t count = 0;
  const int64_t* keys = nullptr;
  std::vector<const float*> planes;  // rows, slots: [count, width]
};

/// Calls use(block) for the rows that this rank owns. All ranks call it with the same placement but
/// for the rank; `source` is rank 0's, on ranks connected to it nullptr. `widths`: of the planes.
using UseBlock = std::function<void(const RowsBlock& block)>;
void ForEachOwnedBlock(RankCommunicator& communicator, const Placement& placement,
                       const std::vector<int64_t>& widths, RowsSource* source, const UseBlock& use);

/// Fills an empty table. Throws the errors of CheckKeysFit, but for repeated keys.
class TableFromBlocks {
 public:
  /// About `num_keys` will come.
  TableFromBlocks(OpCall& call, const TableView& fresh, KeysOf keys, int64_t num_keys);

  void Put(const RowsBlock& block);
  /// Returns whether keys were repeated.
  bool End();

 private:
  void Append(const RowsBlock& block);
  void Insert(const RowsBlock& block);

  OpCall& call_;
  const TableView& fresh_;
  const KeysOf keys_;
  TableFiller filler_;
  RowMover rows_;
  std::vector<RowMover> slots_;            // those that come
  std::vector<Planes::Slot> other_slots_;  // those that start anew
  int64_t num_keys_ = 0;
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_DUMP_RESTORED_DUMP_H_
