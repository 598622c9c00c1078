// SPDX-License-Identifier: Apache-2.0
// What a checkpoint holds of a table, on its way from the table to a rank's part of the checkpoint.
#ifndef SOK_OPS_TF_CHECKPOINT_LAYOUT_SAVED_TABLE_H_
#define SOK_OPS_TF_CHECKPOINT_LAYOUT_SAVED_TABLE_H_

#include <string>
#include <vector>

#include "ops/tf/checkpoint/bundle/shard_writer.h"
#include "ops/tf/ranks/rank_communicator.h"
#include "ops/tf/tables/live_keys.h"
#include "ops/tf/tables/table_contents.h"

namespace sok {

/// Rows of a checkpoint, one for each key: those of the table, of a slot, or of an ordinary
/// variable that has them by row id.
struct SavedPlane {
  std::string title;
  RowMover mover;
};

/// What is written of a table.
struct TableToSave {
  const TableView& view;
  std::vector<SavedPlane>& planes;  // the first one is the table's rows
  LiveKeys held;                    // in an increment, those whose rows have changed
  std::vector<int64_t> gone_keys;   // in an increment
};

/// Writes the keys <title>/keys and the planes as one tensor each over all ranks, rank after rank;
/// of each rank, its slice. Keys are in the order of row ids. What later keys start by is
/// <title>/seed.
void WriteRowsOfRanks(RankCommunicator& communicator, const std::string& title, TableToSave& table,
                      ShardWriter* writer);

/// As above, with kIncrementEnding, and <title>/gone.increment; no seed, which does not change.
void WriteIncrementOfRanks(RankCommunicator& communicator, const std::string& title,
                           TableToSave& table, ShardWriter* writer);

/// Those that the table does not hold, each once, ascending.
std::vector<int64_t> KeysWithoutRows(OpCall& call, Table& table, std::vector<int64_t> keys);

/// Writes the scalar `name`: what keys that come later start by, with the key. Nothing where that
/// is no matter of chance.
void WriteSeed(const TableOptions& options, const std::string& name, ShardWriter* writer);

/// Writes nine tensors of each plane in DeepRec's layout, which are of this rank alone: keys are in
/// buckets, and come with what is recorded of them.
class BucketWriter {
 public:
  /// `narrow_keys`: keys are written as int32; others throw kInvalidArgument. `rows`: those that
  /// are written; nullptr: all.
  BucketWriter(OpCall& call, const TableView& view, int64_t num_buckets, bool narrow_keys,
               const RowBits* rows, ShardWriter* writer);

  void Write(SavedPlane& plane);
  void WriteNumbers(const std::string& name, const std::vector<int64_t>& numbers);

 private:
  void ReadHistory();
  void SortWaiting(const std::vector<int64_t>& keys, const std::vector<KeySeen>& seen);
  void WriteKeys(const std::string& name, const std::vector<int64_t>& keys);
  void WriteStarts(const std::string& name, const std::vector<int64_t>& keys);

  OpCall& call_;
  const TableView& view_;
  const int64_t num_buckets_;
  const bool narrow_keys_;
  ShardWriter* const writer_;
  TableEntries held_;
  std::vector<int64_t> keys_, versions_, freqs_;
  std::vector<int64_t> filtered_, filtered_versions_, filtered_freqs_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_LAYOUT_SAVED_TABLE_H_
