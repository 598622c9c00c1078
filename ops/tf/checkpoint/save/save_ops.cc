// SPDX-License-Identifier: Apache-2.0
// Ops behind tf.train.Saver.save: all ranks write one checkpoint, with tables as streams.
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ops/formats/files/save_id.h"
#include "ops/tf/base/shared_variant.h"
#include "ops/tf/checkpoint/layout/saved_table.h"
#include "ops/tf/checkpoint/save/checkpoint_transaction.h"
#include "ops/tf/ranks/gathered_parts.h"
#include "ops/tf/ranks/whole_table_op.h"
#include "ops/tf/tables/plane_checks.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

namespace tf = tensorflow;

REGISTER_OP("SokBeginCheckpoint")
    .Input("prefix: string")
    .Input("tensors: T")
    .Input("collectives: num_collectives * variant")
    .Input("base: num_bases * string")
    .Input("steps: variant")
    .Output("checkpoint: variant")
    .Attr("T: list(type) >= 0")
    .Attr("num_collectives: int >= 0")
    .Attr("num_bases: int >= 0 = 0")
    .Attr("names: list(string) >= 0")
    .Attr("slices: list(string) >= 0")
    .Attr("num_ranks: int >= 1")
    .Attr("rank: int >= 0")
    .Attr("on_rank_0: bool = false")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc(
        "Begins this rank's part of a checkpoint, with the tensors that only this rank writes. "
        "All ranks begin one with the same prefix. Unless SokCommitCheckpoint follows, the part "
        "is removed. With on_rank_0, rank 0 writes all parts, to its prefix, and the other ranks "
        "write no file. With a `base`, tables record fingerprints of the saved rows: '' makes a "
        "whole checkpoint, '<name>\\n<id>' an increment of that one, in the same folder; all "
        "ranks use rank 0's. `steps` is the output of SokHoldCheckpointBarrier.");

REGISTER_OP("SokSaveTable")
    .Input("table: resource")
    .Input("checkpoint: variant")
    .Input("variables: num_variables * resource")
    .Input("collectives: num_collectives * variant")
    .Attr("num_variables: int >= 0")
    .Attr("num_collectives: int >= 0")
    .Attr("table_name: string")
    .Attr("titles: list(string) >= 1")
    .Attr("slot_names: list(string) >= 0")
    .Attr("num_buckets: int >= 0 = 0")
    .Attr("saves_waiting_keys: bool = true")
    .Attr("Tkey: {int64, int32}")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Adds the table's contents on this rank: keys, rows, the named slots, and rows of "
        "ordinary variables by row id; `titles` name them in this order. Without num_buckets "
        "they are slices of <table_name>/keys and of tensors over all ranks; else nine tensors "
        "for each plane, of this rank alone, and the seed of later keys.");

REGISTER_OP("SokCommitCheckpoint")
    .Input("checkpoint: variant")
    .Input("collectives: num_collectives * variant")
    .Attr("num_collectives: int >= 0")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Turns the parts of all ranks into a checkpoint atomically, replacing an earlier one of "
        "that name. Rank 0 does it; its result is that of all ranks.");

REGISTER_OP("SokSavedBase")
    .Input("table: resource")
    .Output("id: string")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc(
        "Id of the last checkpoint in a series that contains the table; '' if there is none, or "
        "if the table's contents or slots have been replaced since.");

std::shared_ptr<CheckpointTransaction> CheckpointIn(const tf::Tensor& tensor) {
  if (auto checkpoint = SharedIn<CheckpointTransaction>(tensor)) return checkpoint;
  Throw(ErrorCode::kInvalidArgument,
        "input `checkpoint` must be the output of SokBeginCheckpoint, got ", tensor.DebugString());
}

class BeginCheckpointOp : public CommunicatingOp {
 public:
  explicit BeginCheckpointOp(tf::OpKernelConstruction* ctx)
      : CommunicatingOp(ctx),
        names_(Attribute<std::vector<std::string>>(ctx, "names")),
        slices_(Attribute<std::vector<std::string>>(ctx, "slices")),
        num_ranks_(Attribute<int64_t>(ctx, "num_ranks")),
        rank_(Attribute<int64_t>(ctx, "rank")),
        on_rank_0_(Attribute<bool>(ctx, "on_rank_0")),
        num_bases_(Attribute<int64_t>(ctx, "num_bases")) {
    OP_REQUIRES(ctx, num_bases_ <= 1, absl::InvalidArgumentError("num_bases must be 0 or 1"));
  }

 protected:
  void Run(tf::OpKernelContext* ctx, std::shared_ptr<const CollectiveHandle> held) override {
    const std::string prefix = Input(ctx, "prefix").scalar<tf::tstring>()();
    CheckInputs(ctx, prefix, held != nullptr);
    RankCommunicator communicator(ctx, num_ranks_, rank_,
                                  std::move(held));  // since SokHoldCheckpointBarrier
    const auto checkpoint = std::make_shared<CheckpointTransaction>(num_ranks_, rank_, on_rank_0_);
    checkpoint->steps = BarrierIn(ctx);
    const std::string base = Base(ctx);
    std::string id;
    if (rank_ == 0) {
      id = NewSaveId();
      checkpoint->files.emplace(ctx->env(), prefix, id, rank_);
    }
    const std::vector<std::string> ids = communicator.Share(id + "\n" + prefix);
    const std::string base_of_rank_0 = communicator.Share(base)[0];
    if (!on_rank_0_) CheckSamePrefix(ids);
    id = ids[0].substr(0, ids[0].find('\n'));
    if (num_bases_ > 0) checkpoint->series = CheckpointInSeries{id, BaseIn(base_of_rank_0)};
    if (rank_ != 0 && !on_rank_0_) checkpoint->files.emplace(ctx->env(), prefix, id, rank_);
    MakeWriters(ctx, checkpoint.get());
    OutputShared(ctx, "checkpoint", checkpoint);
  }

 private:
  void CheckInputs(tf::OpKernelContext* ctx, const std::string& prefix, bool meets) const {
    tf::OpInputList tensors;
    ThrowIfError(ctx->input_list("tensors", &tensors));
    const auto count = static_cast<size_t>(tensors.size());
    if (names_.size() != count || slices_.size() != count)
      Throw(ErrorCode::kInvalidArgument, "names and slices must have as many values as tensors");
    if (prefix.empty() || prefix.back() == '/')
      Throw(ErrorCode::kInvalidArgument, "a checkpoint needs a file name, got '", prefix, "'");
    if (num_ranks_ > 1 && !meets) {
      Throw(ErrorCode::kFailedPrecondition, "the checkpoint ", prefix, " is shared by ", num_ranks_,
            " ranks, but this process is not connected to them");
    }
  }

  std::string Base(tf::OpKernelContext* ctx) const {
    if (num_bases_ == 0) return "";
    tf::OpInputList bases;
    ThrowIfError(ctx->input_list("base", &bases));
    return bases[0].scalar<tf::tstring>()();
  }

  void MakeWriters(tf::OpKernelContext* ctx, CheckpointTransaction* checkpoint) const {
    if (!checkpoint->files) {
      checkpoint->writer = std::make_unique<ShardWriter>();
      return;
    }
    const CheckpointFiles& files = *checkpoint->files;
    std::vector<TensorToSave> tensors = Tensors(ctx);
    if (checkpoint->series && rank_ == 0)
      tensors.push_back({CheckpointInSeries::kTensor, "", checkpoint->series->ToTensor()});
    checkpoint->writer = std::make_unique<ShardWriter>(ctx->env(), files.PartOf(rank_), tensors);
    for (int64_t rank = 1; on_rank_0_ && rank < num_ranks_; ++rank)
      checkpoint->received.push_back(
          std::make_unique<ReceivedPart>(ctx->env(), files.PartOf(rank)));
  }

  static void CheckSamePrefix(const std::vector<std::string>& ids) {
    const auto prefix = [&](size_t rank) { return ids[rank].substr(ids[rank].find('\n') + 1); };
    for (size_t rank = 1; rank < ids.size(); ++rank) {
      if (prefix(rank) == prefix(0)) continue;
      Throw(ErrorCode::kInvalidArgument, "the ranks save different checkpoints: rank 0 ", prefix(0),
            ", rank ", rank, " ", prefix(rank),
            "; give all ranks the same path, on a disk that all machines share");
    }
  }

  std::vector<TensorToSave> Tensors(tf::OpKernelContext* ctx) const {
    tf::OpInputList tensors;
    ThrowIfError(ctx->input_list("tensors", &tensors));
    std::vector<TensorToSave> found;
    for (int i = 0; i < tensors.size(); ++i) {
      const auto place = static_cast<size_t>(i);
      found.push_back({names_[place], slices_[place], tensors[i]});
    }
    return found;
  }

  const std::vector<std::string> names_, slices_;
  const int64_t num_ranks_, rank_;
  const bool on_rank_0_;
  const int64_t num_bases_;
};

/// Sends a writer's output while this lives.
class SinkOf {
 public:
  SinkOf(ShardWriter* writer, GatheredParts* parts) : writer_(writer) {
    writer_->SetSink([parts](const char* data, size_t size) { parts->Send(data, size); });
  }
  ~SinkOf() { writer_->SetSink(nullptr); }
  SinkOf(const SinkOf&) = delete;
  SinkOf& operator=(const SinkOf&) = delete;

 private:
  ShardWriter* const writer_;
};

/// Nothing changes the table meanwhile, whether its step is held or not.
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
    const auto num_variables = Attribute<int64_t>(ctx, "num_variables");
    OP_REQUIRES(
        ctx, titles_.size() == 1 + slot_names_.size() + static_cast<size_t>(num_variables),
        absl::InvalidArgumentError("titles must name the rows, each slot and each variable"));
  }

 protected:
  void Move(tf::OpKernelContext* ctx, OpCall& call, TableResource& table,
            RankCommunicator& communicator) override {
    const std::shared_ptr<CheckpointTransaction> checkpoint =
        CheckpointIn(Input(ctx, "checkpoint"));
    const std::vector<VariablePtr> variables = Variables(ctx);
    std::vector<tf::Var*> others;
    for (const VariablePtr& variable : variables) others.push_back(variable.get());
    communicator.AwaitTurn();
    table.WithAlone(call, slot_names_, others, [&](const TableView& view) {
      communicator.GiveTurn();
      CheckAllSlotsAreNamed(view.options(), view.planes.slots.size(), view.places.size());
      std::vector<Column> columns = Columns(call, view, others);
      const std::lock_guard<std::mutex> lock(checkpoint->mutex);
      TableToSave saved{call, view, columns, LiveKeys(call, view), {}};
      if (checkpoint->series) Compare(call, checkpoint.get(), table.fingerprints(), &saved);
      if (!checkpoint->on_rank_0) {
        Write(call, saved, communicator, *checkpoint);
      } else if (checkpoint->rank == 0) {
        Write(call, saved, communicator, *checkpoint);
        GatheredParts(communicator).Receive([&](int64_t rank, const char* data, size_t num_bytes) {
          checkpoint->received[static_cast<size_t>(rank - 1)]->Append(data, num_bytes);
        });
      } else {
        GatheredParts parts(communicator);
        const SinkOf sink(checkpoint->writer.get(), &parts);
        Write(call, saved, communicator, *checkpoint);
        parts.EndSending();
      }
    });
  }

 private:
  static std::vector<VariablePtr> Variables(tf::OpKernelContext* ctx) {
    tf::OpInputList handles;
    ThrowIfError(ctx->input_list("variables", &handles));
    std::vector<VariablePtr> variables;
    for (int i = 0; i < handles.size(); ++i)
      variables.push_back(LookupVariable(ctx, handles[i].scalar<tf::ResourceHandle>()()));
    return variables;
  }

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
    LiveKeys& held = saved->held;
    checkpoint->changes.push_back(
        fingerprints.Compare(call, held.num_rows(), held.Bits(), planes, saved->view.history));
    if (!checkpoint->is_increment()) return;
    held.KeepOnly(checkpoint->changes.back()->rows());
    saved->gone_keys =
        KeysWithoutRows(call, saved->view.table, checkpoint->changes.back()->gone_keys());
  }

  void Write(OpCall& call, TableToSave& saved, RankCommunicator& communicator,
             const CheckpointTransaction& checkpoint) const {
    ShardWriter* writer = checkpoint.writer.get();
    if (buckets_.count > 0) return WriteBuckets(call, saved, checkpoint, writer);
    if (checkpoint.is_increment()) return WriteIncrementOfRanks(communicator, name_, saved, writer);
    WriteRowsOfRanks(communicator, name_, saved, writer);
  }

  void WriteBuckets(OpCall& call, TableToSave& saved, const CheckpointTransaction& checkpoint,
                    ShardWriter* writer) const {
    const bool is_whole = !checkpoint.is_increment();
    const RowBits* rows = is_whole ? nullptr : &checkpoint.changes.back()->rows();
    BucketWriter buckets(call, saved.view, buckets_, rows, writer);
    for (Column& plane : saved.columns) {
      if (!is_whole) plane.title += kIncrementEnding;
      buckets.Write(plane);
    }
    if (is_whole) return WriteSeed(saved.view.options(), titles_[0] + kSeedOfBuckets, writer);
    buckets.WriteNumbers(titles_[0] + kIncrementEnding + kGoneOfBuckets, saved.gone_keys);
  }

  /// Buckets have the history of keys beside each plane.
  std::vector<Column> Columns(OpCall& call, const TableView& view,
                              const std::vector<tf::Var*>& variables) const {
    const int64_t most = view.options().capacity;
    std::vector<Column> columns;
    const auto add = [&](RowMover rows) {
      columns.push_back(ColumnOf(titles_[columns.size()], std::move(rows)));
    };
    add(RowMover(call, *view.planes.rows, most));
    for (const size_t place : view.places)
      add(RowMover(call, *view.planes.slots[place].plane, most));
    for (tf::Var* variable : variables) {
      tf::Tensor* rows = variable->tensor();
      CheckRowsByRowId(view.options(), titles_[columns.size()], *rows);
      add(RowMover(call, FloatRows(Data<float>(*rows), rows->dim_size(1)), most));
    }
    if (buckets_.count > 0 || !view.limits_keys()) return columns;
    for (Column& column : ColumnsOfHistory(call, name_ + "/", *view.history))
      columns.push_back(std::move(column));
    return columns;
  }

  const std::string name_;
  const std::vector<std::string> titles_;  // of the rows, the slots and the variables
  const std::vector<std::string> slot_names_;
  const BucketOptions buckets_;
};

class CommitCheckpointOp : public CommunicatingOp {
 public:
  using CommunicatingOp::CommunicatingOp;

 protected:
  void Run(tf::OpKernelContext* ctx, std::shared_ptr<const CollectiveHandle> held) override {
    const std::shared_ptr<CheckpointTransaction> checkpoint =
        CheckpointIn(Input(ctx, "checkpoint"));
    RankCommunicator communicator(ctx, checkpoint->num_ranks, checkpoint->rank, std::move(held));
    std::vector<int64_t> data_bytes;
    const int64_t of_this_rank = checkpoint->writer->Finish();
    for (const std::string& num_bytes : communicator.Share(std::to_string(of_this_rank)))
      data_bytes.push_back(std::stoll(num_bytes));
    checkpoint->steps->Release();  // all ranks have written their parts
    if (checkpoint->on_rank_0) GatherIndexes(communicator, *checkpoint);
    if (checkpoint->rank == 0) checkpoint->files->Commit(data_bytes);
    communicator.Share();
    for (const auto& of_table : checkpoint->changes) of_table->Commit(checkpoint->series->id);
  }

 private:
  static void GatherIndexes(RankCommunicator& communicator, CheckpointTransaction& checkpoint) {
    const bool is_first = checkpoint.rank == 0;
    const std::vector<std::string> indexes =
        communicator.Share(is_first ? std::string() : TextOf(checkpoint.writer->entries()));
    for (size_t i = 0; i < checkpoint.received.size(); ++i)
      checkpoint.received[i]->Finish(EntriesIn(indexes[i + 1]));
  }
};

class SavedBaseOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
      Output(ctx, "id", {}).scalar<tf::tstring>()() = resource->fingerprints().base();
    });
  }
};

// On a GPU: checkpoints are on the host.
SOK_REGISTER_KERNEL(Name("SokBeginCheckpoint")
                        .HostMemory("prefix")
                        .HostMemory("tensors")
                        .HostMemory("collectives")
                        .HostMemory("base")
                        .HostMemory("steps")
                        .HostMemory("checkpoint"),
                    BeginCheckpointOp);
SOK_REGISTER_KERNEL(Name("SokSaveTable")
                        .HostMemory("table")
                        .HostMemory("checkpoint")
                        .HostMemory("variables")
                        .HostMemory("collectives"),
                    SaveTableOp);
SOK_REGISTER_KERNEL(Name("SokCommitCheckpoint").HostMemory("checkpoint").HostMemory("collectives"),
                    CommitCheckpointOp);
SOK_REGISTER_KERNEL(Name("SokSavedBase").HostMemory("table").HostMemory("id"), SavedBaseOp);

}  // namespace
}  // namespace sok
