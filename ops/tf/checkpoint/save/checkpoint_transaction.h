// SPDX-License-Identifier: Apache-2.0
// The state shared by the ops of one save.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "ops/formats/bundle/series.h"
#include "ops/tf/base/shared_variant.h"
#include "ops/tf/checkpoint/bundle/checkpoint_files.h"
#include "ops/tf/checkpoint/bundle/shard_writer.h"
#include "ops/tf/ranks/checkpoint_barrier.h"
#include "ops/tf/tables/resource/row_fingerprints.h"

namespace sok {

/// This rank's part of a checkpoint that is being written.
struct CheckpointTransaction {
  explicit CheckpointTransaction(bool is_on_rank_0) : on_rank_0(is_on_rank_0) {}

  std::shared_ptr<CheckpointBarrier> steps;  // holds steps until everything is written
  std::mutex mutex;                          // ops add to the checkpoint one after the other
  std::optional<CheckpointFiles> files;      // nullopt if only rank 0 has files
  std::unique_ptr<ShardWriter> writer;
  std::vector<std::unique_ptr<SyncedFile>> received;  // on rank 0: of ranks 1, 2, ...
  std::optional<CheckpointInSeries> series;           // nullopt without increments
  std::vector<std::unique_ptr<RowChanges>> changes;   // by table, in a series
  const bool on_rank_0;

  bool is_increment() const { return series && series->base; }
};

/// The transaction that is the input `checkpoint` of an op. Throws kInvalidArgument.
inline std::shared_ptr<CheckpointTransaction> CheckpointIn(tf::OpKernelContext* ctx) {
  return SharedInput<CheckpointTransaction>(ctx, "checkpoint", "SokBeginCheckpoint");
}

}  // namespace sok
