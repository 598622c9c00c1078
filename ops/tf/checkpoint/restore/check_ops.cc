// SPDX-License-Identifier: Apache-2.0
// Ops that read a checkpoint before a restore replaces anything, so that a failing restore changes
// nothing.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "ops/tf/base/kernels.h"
#include "ops/tf/base/shared_variant.h"
#include "ops/tf/checkpoint/restore/restored_together.h"
#include "ops/tf/checkpoint/restore/saved_table_op.h"
#include "ops/tf/ranks/checkpoint_barrier.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/util/saved_tensor_slice_util.h"

namespace sok {
namespace {

REGISTER_OP("SokTablesHaveKeys")
    .Input("tables: num_tables * resource") SOK_COLLECTIVES.Output("have_keys: bool")
    .Attr("num_tables: int >= 0")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc("Whether any of the tables holds a key, on any rank.");

REGISTER_OP("SokCheckSaved")
    .Input("table: resource")
    .Input("prefix: string")
    .Input("reads: bool") SOK_COLLECTIVES.SetIsStateful() SOK_SAVED_TABLE_ATTRIBUTES
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Fails on all ranks if SokRestoreSaved would fail on any, and changes nothing. Unless it "
        "`reads`, it checks the index only.");

REGISTER_OP("SokCheckTensors")
    .Input("prefix: string")
    .Input("reads: bool") SOK_COLLECTIVES.Attr("names: list(string) >= 0")
    .Attr("slices: list(string) >= 0")
    .Attr("dtypes: list(type) >= 0")
    .Attr("shapes: list(shape) >= 0")
    .Attr("are_rows: bool = false")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Fails on all ranks if on any RestoreV2 would fail or return tensors of other shapes "
        "than the known ones, or if they `are_rows` SokReadSavedRows. Unless it `reads`, it "
        "checks the index only.");

REGISTER_OP("SokReleaseCheckpointBarrier")
    .Input("steps: variant")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("Releases the steps that SokHoldCheckpointBarrier holds.");

class TablesHaveKeysOp : public CommunicatingOp {
 public:
  using CommunicatingOp::CommunicatingOp;

 protected:
  void Run(tf::OpKernelContext* ctx, RankCommunicator& communicator) override {
    OpCall call(ctx);
    tf::OpInputList tables;
    ThrowIfError(ctx->input_list("tables", &tables));
    bool have_keys = false;
    for (const tf::Tensor& handle : tables) {
      LookupTable(ctx, handle.scalar<tf::ResourceHandle>()())
          ->WithTable([&](const TableView& view) {
            have_keys = have_keys || view.table.Size(call).num_keys > 0;
          });
    }
    communicator.Begin();
    *Data<bool>(Output(ctx, "have_keys", {})) = communicator.ShareAny(have_keys);
  }
};

bool Reads(tf::OpKernelContext* ctx) { return Input(ctx, "reads").scalar<bool>()(); }

class CheckSavedOp : public SavedTableOp {
 public:
  using SavedTableOp::SavedTableOp;

 protected:
  void Move(tf::OpKernelContext* ctx, OpCall& call, TableResource& table,
            RankCommunicator& communicator) override {
    const std::string prefix = Input(ctx, "prefix").scalar<tf::tstring>()();
    communicator.Begin();
    ReadOnAllRanks(communicator, prefix, [&] {
      const Chain chain = OpenChain(prefix);
      TableOptions options;
      table.WithSlots(call, slot_names_, [&](const TableView& view) {
        options = view.options();
        for (const auto& link : chain) Open(view, link.get());
      });
      StreamOf(chain);
      if (Reads(ctx)) CheckContents(options, chain);
      return SignatureOf(chain);
    });
  }

 private:
  void CheckContents(const TableOptions& options, const Chain& chain) const {
    std::vector<int64_t> current;  // ascending
    for (const auto& link : chain) {
      std::vector<int64_t> keys = ReadLink(options, *link);
      SortKeysThatFit(options, &keys, keys_);
      if (link->is_whole()) {
        current = std::move(keys);
        continue;
      }
      std::vector<int64_t> kept, all;
      const std::vector<int64_t> gone = GoneKeys(*link);
      std::set_difference(current.begin(), current.end(), gone.begin(), gone.end(),
                          std::back_inserter(kept));
      std::set_union(kept.begin(), kept.end(), keys.begin(), keys.end(), std::back_inserter(all));
      current = std::move(all);
      CheckNumKeysFits(options, static_cast<int64_t>(current.size()));
    }
  }

  /// Reads all that is wanted of a checkpoint; returns the keys.
  std::vector<int64_t> ReadLink(const TableOptions& options, SavedLink& link) const {
    Count(&link);
    if (link.is_whole()) CheckNumKeysFits(options, link.num_wanted());
    std::vector<int64_t> keys;
    keys.reserve(static_cast<size_t>(link.num_wanted()));
    const auto keep = [&](const RowsBlock& block) {
      keys.insert(keys.end(), block.keys(), block.keys() + block.count);
    };
    const auto pass = [](SavedColumns& columns) { columns.ForEachBlock([](const RowsBlock&) {}); };
    for (SavedColumns& columns : link.rows) columns.ForEachBlock(keep);
    for (SavedColumns& columns : link.waiting) pass(columns);
    for (size_t slot = 0; slot < slot_names_.size(); ++slot) ForEachPartOfSlot(link, slot, pass);
    return keys;
  }
};

class CheckTensorsOp : public CommunicatingOp {
 public:
  explicit CheckTensorsOp(tf::OpKernelConstruction* ctx)
      : CommunicatingOp(ctx),
        names_(Attribute<std::vector<std::string>>(ctx, "names")),
        slices_(Attribute<std::vector<std::string>>(ctx, "slices")),
        dtypes_(Attribute<std::vector<tf::DataType>>(ctx, "dtypes")),
        shapes_(Attribute<std::vector<tf::PartialTensorShape>>(ctx, "shapes")),
        are_rows_(Attribute<bool>(ctx, "are_rows")) {
    const size_t count = names_.size();
    OP_REQUIRES(
        ctx, slices_.size() == count && dtypes_.size() == count && shapes_.size() == count,
        absl::InvalidArgumentError("slices, dtypes and shapes must have as many values as names"));
  }

 protected:
  void Run(tf::OpKernelContext* ctx, RankCommunicator& communicator) override {
    const std::string prefix = Input(ctx, "prefix").scalar<tf::tstring>()();
    communicator.Begin();
    ReadOnAllRanks(communicator, prefix, [&] {
      SavedTensors saved(prefix);
      std::vector<tf::TensorSlice> slices;
      for (size_t i = 0; i < names_.size(); ++i) slices.push_back(CheckedSlice(saved, i));
      for (size_t i = 0; Reads(ctx) && i < names_.size(); ++i)
        saved.VerifySlice(names_[i], slices[i]);
      return std::string();
    });
  }

 private:
  tf::TensorSlice CheckedSlice(SavedTensors& saved, size_t i) const {
    if (are_rows_) saved.ElementOf(names_[i]);
    const tf::TensorShape shape =
        are_rows_ ? saved.ShapeOf(names_[i]) : saved.ShapeOf(names_[i], dtypes_[i]);
    tf::TensorShape whole, part;
    tf::TensorSlice slice(shape.dims());
    if (!slices_[i].empty()) {
      ThrowIfError(tf::checkpoint::ParseShapeAndSlice(slices_[i], &whole, &slice, &part));
    }
    const tf::PartialTensorShape& expected =
        slices_[i].empty() ? shapes_[i] : tf::PartialTensorShape(whole);
    if (expected.IsCompatibleWith(shape)) return slice;
    Throw(ErrorCode::kInvalidArgument, names_[i], " in the checkpoint ", saved.prefix(),
          " has the shape ", shape.DebugString(), ", but its variable ", expected.DebugString(),
          ": create the variable with the saved shape");
  }

  const std::vector<std::string> names_, slices_;
  const std::vector<tf::DataType> dtypes_;
  const std::vector<tf::PartialTensorShape> shapes_;
  const bool are_rows_;
};

void ReleaseBarrier(tf::OpKernelContext* ctx) {
  if (auto steps = SharedIn<CheckpointBarrier>(Input(ctx, "steps"))) steps->Release();
}

// On a GPU: checkpoints are on the host.
const RegisteredKernel kCheckKernels[] = {
    {"SokTablesHaveKeys", Make<TablesHaveKeysOp>, {"tables", "collectives", "have_keys"}},
    {"SokCheckSaved", Make<CheckSavedOp>, {"table", "prefix", "reads", "collectives"}},
    {"SokCheckTensors", Make<CheckTensorsOp>, {"prefix", "reads", "collectives"}},
    {"SokReleaseCheckpointBarrier", Make<KernelOf<Calls<ReleaseBarrier>>>, {"steps"}},
};

}  // namespace
}  // namespace sok
