// SPDX-License-Identifier: Apache-2.0
// A table and the history of its keys, in the host's memory: rows come with uses, and go.
#ifndef SOK_OPS_TF_TABLES_TABLE_HISTORY_H_
#define SOK_OPS_TF_TABLES_TABLE_HISTORY_H_

#include <cstdint>
#include <vector>

#include "ops/tf/tables/table_resource.h"

namespace sok {

/// Throws kFailedPrecondition if the table keeps none.
KeyHistory& HistoryOf(const TableView& view);

/// Replaces the history of these distinct keys. Keys without a row still wait for one, however
/// often they occurred; without a filter their history is dropped.
void ImportHistory(OpCall& call, const TableView& view, const std::vector<int64_t>& keys,
                   const std::vector<KeySeen>& seen);

/// Table::Find for arrays on the host.
void FindOnHost(OpCall& call, Table& table, int64_t num_keys, const int64_t* keys,
                int64_t* row_ids);

/// Table::Evict for keys and their rows on the host; running steps keep the rows. Returns the
/// number of keys that the table held. Needs the history's mutex.
int64_t EvictRows(OpCall& call, const TableView& view, TableResource* table,
                  const std::vector<int64_t>& keys, const std::vector<int64_t>& row_ids);

/// TableResource::Find and Table::FindOrInsert for an op's lookup of keys, in the engine's memory.
/// A table with a limit of keys records the use of the keys, and new keys above the limit evict the
/// least recently used ones that the op's step has not used; throws kOutOfCapacity if those are too
/// few.
void FindUsed(tensorflow::OpKernelContext* ctx, OpCall& call, TableResource* table,
              int64_t num_keys, const int64_t* keys, int64_t* row_ids);
void FindOrInsertUsed(tensorflow::OpKernelContext* ctx, OpCall& call, TableResource* table,
                      const TableView& view, int64_t num_keys, const int64_t* keys,
                      bool keys_are_distinct, const float* initial_rows, int64_t* row_ids);

/// Records the use of those keys of an op's later lookup that have rows, if the table has a limit
/// of keys: an earlier lookup of the op evicts others first.
void NoteUses(tensorflow::OpKernelContext* ctx, OpCall& call, TableResource* table,
              int64_t num_keys, const int64_t* keys);

/// The keys to evict before FindOrInsertUsed inserts `keys`, in the order of their last uses, with
/// the moment of the lookup; records the uses of keys that have rows. Needs the history's mutex.
std::vector<LastUse> UseAndChooseVictims(tensorflow::OpKernelContext* ctx, OpCall& call,
                                         TableResource* table, const TableView& view,
                                         int64_t num_keys, const int64_t* keys);

}  // namespace sok

#endif  // SOK_OPS_TF_TABLES_TABLE_HISTORY_H_
