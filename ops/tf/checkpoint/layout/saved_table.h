// SPDX-License-Identifier: Apache-2.0
// Writes a table's contents into a rank's part of a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "ops/tf/checkpoint/bundle/shard_writer.h"
#include "ops/tf/ranks/rank_communicator.h"
#include "ops/tf/tables/contents/columns.h"
#include "ops/tf/tables/contents/live_keys.h"

namespace sok {

/// The contents to save of a table.
struct TableToSave {
  OpCall& call;
  const TableView& view;
  std::vector<Column>& columns;    // the first is the table's rows
  LiveKeys live;                   // in an increment, keys whose rows have changed
  std::vector<int64_t> gone_keys;  // keys without rows, in an increment
};

/// Writes the keys <title>/keys and each column as one tensor over all ranks, in the order of
/// ranks: each rank writes its slice. Keys are in the order of row ids. <title>/seed is the seed of
/// later keys' first values.
void WriteRowsOfRanks(RankCommunicator& communicator, const std::string& title, TableToSave& table,
                      ShardWriter* writer);

/// As above, with kIncrementEnding, and <title>/gone.increment; the seed only of rows of two bytes:
/// others' does not change.
void WriteIncrementOfRanks(RankCommunicator& communicator, const std::string& title,
                           TableToSave& table, ShardWriter* writer);

/// Those of the keys that the table does not hold, distinct and ascending.
std::vector<int64_t> KeysWithoutRows(OpCall& call, Table& table, std::vector<int64_t> keys);

/// Writes `name`, the seed of later keys' first values; of rows of two bytes, a vector with the
/// number of updates. Writes nothing if nothing of the table is random.
void WriteSeed(const TableView& view, const std::string& name, ShardWriter* writer);

struct BucketOptions {
  int64_t count;     // 0: the table is not saved in buckets
  bool narrow_keys;  // writes keys as int32, and throws kInvalidArgument for keys that do not fit
  bool saves_waiting_keys;  // keys that a filter has not given a row
};

/// Writes nine tensors of each plane in DeepRec's layout, which belong to this rank alone: keys are
/// in buckets, with their histories. `num_planes` of the columns are planes, the others histories.
void WriteBuckets(const BucketOptions& options, TableToSave& table, size_t num_planes,
                  ShardWriter* writer);

/// Writes a tensor of one dimension that belongs to this rank alone.
void WriteNumbers(const std::string& name, const std::vector<int64_t>& numbers,
                  ShardWriter* writer);

}  // namespace sok
