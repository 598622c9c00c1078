// SPDX-License-Identifier: Apache-2.0
// The op behind tf.train.Saver.save that writes a table as a stream.
#include <mutex>
#include <string>
#include <vector>

#include "ops/tf/base/kernels.h"
#include "ops/tf/checkpoint/layout/saved_table.h"
#include "ops/tf/checkpoint/save/checkpoint_transaction.h"
#include "ops/tf/ranks/gathered_parts.h"
#include "ops/tf/ranks/whole_table_op.h"
#include "ops/tf/tables/contents/plane_checks.h"

namespace sok {
namespace {

REGISTER_OP("SokSaveTable")
    .Input("table: resource")
    .Input("checkpoint: variant") SOK_COLLECTIVES.Attr("table_name: string")
    .Attr("titles: list(string) >= 1")
    .Attr("slot_names: list(string) >= 0")
    .Attr("num_buckets: int >= 0 = 0")
    .Attr("saves_waiting_keys: bool = true")
    .Attr("Tkey: {int64, int32}")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Adds the table's contents on this rank: keys, rows and the named slots; `titles` name "
        "rows and slots. Without num_buckets they are slices of <table_name>/keys and of tensors "
        "over all ranks; else nine tensors for each plane, of this rank alone, and the seed of "
        "later keys.");

/// Sends a writer's output while this lives.
class SinkOf {
 public:
  SinkOf(ShardWriter* writer, GatheredParts* parts) : writer_(writer) {
    writer_->SetSink([parts](const char* data, size_t size) { parts->Send(data, size); });
  }
  ~SinkOf() {
    try {
      writer_->AwaitWritten();
    } catch (...) {  // the writer keeps the error
    }
    writer_->SetSink(nullptr);
  }
  SinkOf(const SinkOf&) = delete;
  SinkOf& operator=(const SinkOf&) = delete;

 private:
  ShardWriter* const writer_;
};

/// Nothing changes the table meanwhile, whether its step is live or not.
class SaveTableOp : public WholeTableOp {
 public:
  explicit SaveTableOp(tf::OpKernelConstruction* ctx)
      : WholeTableOp(ctx),
        name_(Attribute<std::string>(ctx, "table_name")),
        titles_(Attribute<std::vector<std::string>>(ctx, "titles")),
        slot_names_(Attribute<std::vector<std::string>>(ctx, "slot_names")),
        buckets_{Attribute<int64_t>(ctx, "num_buckets"),
                 Attribute<tf::DataType>(ctx, "Tkey") == tf::DT_INT32,
                 Attribute<bool>(ctx, "saves_waiting_keys")} {
    OP_REQUIRES(ctx, titles_.size() == 1 + slot_names_.size(),
                absl::InvalidArgumentError("titles must name the rows and each slot"));
  }

 protected:
  void Move(tf::OpKernelContext* ctx, OpCall& call, TableResource& table,
            RankCommunicator& communicator) override {
    const std::shared_ptr<CheckpointTransaction> checkpoint = CheckpointIn(ctx);
    communicator.AwaitTurn();
    table.WithAlone(call, slot_names_, [&](const TableView& view) {
      communicator.GiveTurn();
      CheckAllSlotsAreNamed(view.options(), view.planes.slots.size(), view.places.size());
      std::vector<Column> columns = Columns(call, view);
      const std::lock_guard<std::mutex> lock(checkpoint->mutex);
      TableToSave saved{call, view, columns, LiveKeys(call, view), {}};
      if (checkpoint->series) Compare(call, checkpoint.get(), table.fingerprints(), &saved);
      if (!checkpoint->on_rank_0) {
        Write(saved, communicator, *checkpoint);
      } else if (communicator.rank() == 0) {
        Write(saved, communicator, *checkpoint);
        GatheredParts(communicator).Receive([&](int64_t rank, const char* data, size_t num_bytes) {
          checkpoint->received[static_cast<size_t>(rank - 1)]->Append(data, num_bytes);
        });
      } else {
        GatheredParts parts(communicator);
        const SinkOf sink(checkpoint->writer.get(), &parts);
        Write(saved, communicator, *checkpoint);
        checkpoint->writer->AwaitWritten();
        parts.EndSending();
      }
    });
  }

 private:
  /// Finds the rows to write in an increment, and records fingerprints for the next one.
  static void Compare(OpCall& call, CheckpointTransaction* checkpoint,
                      RowFingerprints& fingerprints, TableToSave* saved) {
    if (checkpoint->is_increment() && fingerprints.base() != checkpoint->series->base->id) {
      Throw(ErrorCode::kFailedPrecondition, "table '", saved->view.options().name,
            "' cannot be saved as an increment of ", checkpoint->series->base->name,
            ", which is not its last save; save a whole checkpoint");
    }
    std::vector<RowsView> planes;
    for (const Column& column : saved->columns) {
      const RowsView rows = column.source->rows();
      if (rows.width > 0) planes.push_back(rows);
    }
    LiveKeys& live = saved->live;
    checkpoint->changes.push_back(
        fingerprints.Compare(call, live.num_rows(), live.Bits(), planes, saved->view.history));
    if (!checkpoint->is_increment()) return;
    live.KeepOnly(checkpoint->changes.back()->rows());
    saved->gone_keys =
        KeysWithoutRows(call, saved->view.table, checkpoint->changes.back()->gone_keys());
  }

  void Write(TableToSave& saved, RankCommunicator& communicator,
             const CheckpointTransaction& checkpoint) const {
    ShardWriter* writer = checkpoint.writer.get();
    if (buckets_.count == 0) {
      return checkpoint.is_increment() ? WriteIncrementOfRanks(communicator, name_, saved, writer)
                                       : WriteRowsOfRanks(communicator, name_, saved, writer);
    }
    const size_t num_planes = 1 + slot_names_.size();
    if (checkpoint.is_increment()) {
      for (size_t i = 0; i < num_planes; ++i) saved.columns[i].title += kIncrementEnding;
      WriteNumbers(titles_[0] + kIncrementEnding + kGoneOfBuckets, saved.gone_keys, writer);
      if (saved.view.options().first_value.element != Element::kFloat32)
        WriteSeed(saved.view, titles_[0] + kIncrementEnding + kSeedOfBuckets, writer);
    } else {
      WriteSeed(saved.view, titles_[0] + kSeedOfBuckets, writer);
    }
    WriteBuckets(buckets_, saved, num_planes, writer);
  }

  /// Buckets have the history of keys beside each plane, under its title.
  std::vector<Column> Columns(OpCall& call, const TableView& view) const {
    std::vector<Column> columns = ColumnsOf(call, view, view.planes.rows->data().element);
    for (size_t i = 0; i < columns.size(); ++i) {
      if (i < titles_.size())
        columns[i].title = titles_[i];
      else if (buckets_.count == 0)
        columns[i].title.insert(0, name_ + "/");
    }
    return columns;
  }

  const std::string name_;
  const std::vector<std::string> titles_;  // of the rows and the slots
  const std::vector<std::string> slot_names_;
  const BucketOptions buckets_;
};

// On a GPU: checkpoints are on the host.
const RegisteredKernel kSaveTableKernels[] = {
    {"SokSaveTable", Make<SaveTableOp>, {"table", "checkpoint", "collectives"}},
};

}  // namespace
}  // namespace sok
