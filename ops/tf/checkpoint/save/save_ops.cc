// SPDX-License-Identifier: Apache-2.0
// Ops that begin and end a save: all ranks write one checkpoint.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ops/formats/files/save_id.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/tf_file_system.h"
#include "ops/tf/checkpoint/save/checkpoint_transaction.h"
#include "ops/tf/ranks/whole_table_op.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

REGISTER_OP("SokBeginCheckpoint")
    .Input("prefix: string")
    .Input("tensors: T") SOK_COLLECTIVES.Input("base: num_bases * string")
    .Input("steps: variant")
    .Output("checkpoint: variant")
    .Attr("T: list(type) >= 0")
    .Attr("num_bases: int >= 0 = 0")
    .Attr("names: list(string) >= 0")
    .Attr("slices: list(string) >= 0")
    .Attr("num_ranks: int >= 1")
    .Attr("on_rank_0: bool = false")
    .Attr("most_bytes: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc(
        "Begins this rank's part of a checkpoint, with the tensors that only this rank writes. "
        "All ranks begin one with the same prefix. Unless SokCommitCheckpoint follows, the part "
        "is removed. With on_rank_0, rank 0 writes all parts, to its prefix, and the other ranks "
        "write no file. With a `base`, tables record fingerprints of the saved rows: '' makes a "
        "whole checkpoint, '<name>\\n<id>' an increment of that one, in the same folder; all "
        "ranks use rank 0's. `steps` is the output of SokHoldCheckpointBarrier. Of this rank's "
        "part, most_bytes may wait in memory for the disk.");

REGISTER_OP("SokCommitCheckpoint")
    .Input("checkpoint: variant") SOK_COLLECTIVES.Output("id: string")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc(
        "Lets steps go on, and turns the parts of all ranks into a checkpoint atomically, "
        "replacing an earlier one of that name. Rank 0 does it; its result is that of all ranks. "
        "`id` is the checkpoint's in its series, '' if it was begun without a base.");

REGISTER_OP("SokSavedBase")
    .Input("table: resource")
    .Output("id: string")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc(
        "Id of the last checkpoint in a series that contains the table; '' if there is none, or "
        "if the table's contents or slots have been replaced since.");

tf::Tensor TensorOf(const std::vector<std::string>& texts) {
  tf::Tensor tensor(tf::DT_STRING, tf::TensorShape({static_cast<int64_t>(texts.size())}));
  std::copy(texts.begin(), texts.end(), tensor.flat<tf::tstring>().data());
  return tensor;
}

class BeginCheckpointOp : public CommunicatingOp {
 public:
  explicit BeginCheckpointOp(tf::OpKernelConstruction* ctx)
      : CommunicatingOp(ctx),
        names_(Attribute<std::vector<std::string>>(ctx, "names")),
        slices_(Attribute<std::vector<std::string>>(ctx, "slices")),
        num_ranks_(Attribute<int64_t>(ctx, "num_ranks")),
        on_rank_0_(Attribute<bool>(ctx, "on_rank_0")),
        most_bytes_(Attribute<int64_t>(ctx, "most_bytes")),
        num_bases_(Attribute<int64_t>(ctx, "num_bases")) {
    OP_REQUIRES(ctx, num_bases_ <= 1, absl::InvalidArgumentError("num_bases must be 0 or 1"));
  }

 protected:
  void Run(tf::OpKernelContext* ctx, RankCommunicator& communicator) override {
    const std::string prefix = Input(ctx, "prefix").scalar<tf::tstring>()();
    CheckInputs(ctx, prefix, communicator.is_connected());
    const int64_t rank = communicator.rank();
    const auto checkpoint = std::make_shared<CheckpointTransaction>(on_rank_0_);
    checkpoint->steps = BarrierIn(ctx);
    const std::string base = Base(ctx);
    std::string id;
    if (rank == 0) {
      id = NewSaveId();
      checkpoint->files.emplace(TfFileSystem(), prefix, id, rank);
    }
    const std::vector<std::vector<std::string>> all = communicator.ShareTexts({prefix, id, base});
    if (!on_rank_0_) CheckSamePrefix(all);
    id = all[0][1];
    if (num_bases_ > 0)
      checkpoint->series = CheckpointInSeries{id, CheckpointInSeries::Base::In(all[0][2])};
    if (rank != 0 && !on_rank_0_) checkpoint->files.emplace(TfFileSystem(), prefix, id, rank);
    MakeWriters(ctx, rank, checkpoint.get());
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

  void MakeWriters(tf::OpKernelContext* ctx, int64_t own_rank,
                   CheckpointTransaction* checkpoint) const {
    if (!checkpoint->files) {
      checkpoint->writer = std::make_unique<ShardWriter>();
      return;
    }
    const CheckpointFiles& files = *checkpoint->files;
    std::vector<TensorToSave> tensors = Tensors(ctx);
    if (checkpoint->series && own_rank == 0)
      tensors.push_back({CheckpointInSeries::kTensor, "", TensorOf(checkpoint->series->Texts())});
    checkpoint->writer = std::make_unique<ShardWriter>(files.PartOf(own_rank), tensors,
                                                       static_cast<size_t>(most_bytes_));
    for (int64_t rank = 1; on_rank_0_ && rank < num_ranks_; ++rank) {
      checkpoint->received.push_back(
          std::make_unique<SyncedFile>(TfFileSystem(), DataPath(files.PartOf(rank), 0, 1)));
    }
  }

  /// all: by rank; the first text is the prefix.
  static void CheckSamePrefix(const std::vector<std::vector<std::string>>& all) {
    for (size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank][0] == all[0][0]) continue;
      Throw(ErrorCode::kInvalidArgument, "the ranks save different checkpoints: rank 0 ", all[0][0],
            ", rank ", rank, " ", all[rank][0],
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
  const int64_t num_ranks_;
  const bool on_rank_0_;
  const int64_t most_bytes_;
  const int64_t num_bases_;
};

class CommitCheckpointOp : public CommunicatingOp {
 public:
  using CommunicatingOp::CommunicatingOp;

 protected:
  void Run(tf::OpKernelContext* ctx, RankCommunicator& communicator) override {
    const std::shared_ptr<CheckpointTransaction> checkpoint = CheckpointIn(ctx);
    communicator.Share();  // all ranks have copied their tables; parts may still wait for the disk
    checkpoint->steps->Release();
    const std::vector<int64_t> data_bytes = communicator.ShareNumber(checkpoint->writer->Finish());
    if (checkpoint->on_rank_0) GatherIndexes(communicator, *checkpoint);
    if (communicator.rank() == 0) checkpoint->files->Commit(data_bytes);
    communicator.Share();
    tf::tstring& id = Output(ctx, "id", {}).scalar<tf::tstring>()();
    if (!checkpoint->series) return;
    id = checkpoint->series->id;
    for (const auto& of_table : checkpoint->changes) of_table->Commit(id);
  }

 private:
  /// Rank 0 writes the indexes of all parts.
  static void GatherIndexes(RankCommunicator& communicator, CheckpointTransaction& checkpoint) {
    std::vector<std::string> own;  // name, entry, name, ...
    for (const auto& [name, entry] : checkpoint.writer->entries()) {
      if (communicator.rank() == 0) break;
      own.push_back(name);
      own.push_back(entry);
    }
    const std::vector<std::vector<std::string>> all = communicator.ShareTexts(own);
    for (size_t i = 0; i < checkpoint.received.size(); ++i) {
      BundleEntries entries;
      const std::vector<std::string>& texts = all[i + 1];
      for (size_t at = 0; at < texts.size(); at += 2) entries.emplace(texts[at], texts[at + 1]);
      checkpoint.received[i]->Finish();
      WriteIndex(checkpoint.files->PartOf(static_cast<int64_t>(i + 1)), entries);
    }
  }
};

void SavedBase(tf::OpKernelContext* ctx) {
  const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
  Output(ctx, "id", {}).scalar<tf::tstring>()() = resource->fingerprints().base();
}

// On a GPU: checkpoints are on the host.
const RegisteredKernel kSaveKernels[] = {
    {"SokBeginCheckpoint",
     Make<BeginCheckpointOp>,
     {"prefix", "tensors", "collectives", "base", "steps", "checkpoint"}},
    {"SokCommitCheckpoint", Make<CommitCheckpointOp>, {"checkpoint", "collectives", "id"}},
    {"SokSavedBase", Make<KernelOf<Calls<SavedBase>>>, {"table", "id"}},
};

}  // namespace
}  // namespace sok
