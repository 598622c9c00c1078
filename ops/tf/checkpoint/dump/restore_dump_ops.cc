// SPDX-License-Identifier: Apache-2.0
// Ops that read dumps. Rank 0 reads, and sends each rank its rows.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/formats/dumps/dump_source.h"
#include "ops/tf/base/tf_file_system.h"
#include "ops/tf/checkpoint/dump/dump_attributes.h"
#include "ops/tf/checkpoint/dump/restored_dump.h"
#include "ops/tf/ranks/whole_table_op.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

namespace tf = tensorflow;

REGISTER_OP("SokRestoreTable")
    .Input("table: resource")
    .Input("folder: string")
    .Input("collectives: num_collectives * variant")
    .Attr("num_collectives: int >= 0") SOK_DUMP_ATTRIBUTES.SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Makes the table hold exactly the contents of the files, on all ranks or on none; slots "
        "that are not named start at their initial values. Files that do not fit leave it "
        "unchanged. `collectives` as for SokDumpTable.");

REGISTER_OP("SokCheckDump")
    .Input("table: resource")
    .Input("folder: string")
    .Input("reads: bool")
    .Input("collectives: num_collectives * variant")
    .Attr("num_collectives: int >= 0") SOK_DUMP_ATTRIBUTES.SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Fails on all ranks if SokRestoreTable would fail on any, and changes nothing. Unless it "
        "`reads`, it checks sizes and headers only.");

/// The folder, which must be the same on all ranks: rank 0 reads it.
std::string FolderOfRanks(tf::OpKernelContext* ctx, RankCommunicator& communicator) {
  std::string folder = CleanFolder(Input(ctx, "folder").scalar<tf::tstring>()());
  const std::vector<std::string> all = communicator.Share(folder);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    Throw(ErrorCode::kInvalidArgument, "the ranks restore different dumps: rank 0 ", all[0],
          ", rank ", rank, " ", all[rank], "; give all ranks the same path, which rank 0 reads");
  }
  return folder;
}

/// A table's files, opened on rank 0, or by a process without a connection to others.
class OpenedDump {
 public:
  OpenedDump(const std::string& folder, const DumpAttributes& attributes, const TableView& view,
             const RankCommunicator& communicator)
      : options_(view.options()), widths_(WidthsOf(view)) {
    if (options_.placement.rank != 0 && communicator.is_connected()) return;
    format_ = attributes.Format(folder, options_.dim);
    source_.emplace(TfFileSystem(), *format_);
    CheckFits(attributes);
  }

  /// nullptr on other ranks.
  DumpSource* source() { return source_ ? &*source_ : nullptr; }
  const std::vector<int64_t>& widths() const { return widths_; }
  /// About how many keys each rank owns; on rank 0.
  int64_t num_keys() const {
    const bool are_shared = options_.placement.kind == Placement::Kind::kModulo ||
                            options_.placement.kind == Placement::Kind::kRange;
    const int64_t num_ranks = are_shared ? options_.placement.num_ranks : 1;
    return (source_->num_rows() + num_ranks - 1) / num_ranks;
  }

  /// Throws an error that names a repeated key; on rank 0.
  void ThrowRepeatedKey(KeysOf are) {
    TableOptions options = options_;
    options.placement.num_ranks = 1;
    std::vector<int64_t> keys(static_cast<size_t>(source_->num_rows()));
    source_->Rewind();
    source_->Read(0, 0, source_->num_rows(), reinterpret_cast<char*>(keys.data()));
    CheckKeysFit(options, std::move(keys), are);
    Throw(ErrorCode::kDataLoss, source_->stored(0).path, " has changed while it was read");
  }

 private:
  static std::vector<int64_t> WidthsOf(const TableView& view) {
    std::vector<int64_t> widths{view.options().dim};
    for (const size_t place : view.places)
      widths.push_back(view.planes.slots[place].plane->width());
    return widths;
  }

  void CheckFits(const DumpAttributes& attributes) const {
    const int64_t num_rows = source_->num_rows();
    if (attributes.num_keys() >= 0 && num_rows != attributes.num_keys()) {
      Throw(ErrorCode::kInvalidArgument, source_->stored(0).path, " has ", num_rows, " keys, but ",
            attributes.table_name(), " has ", attributes.num_keys(), " rows");
    }
    for (size_t i = 0; i < widths_.size(); ++i) {
      if (num_rows == 0 || source_->width(1 + i) == widths_[i]) continue;
      Throw(ErrorCode::kInvalidArgument, source_->stored(1 + i).path, " has rows of ",
            source_->width(1 + i), " numbers, but those of ", attributes.table_name(), " have ",
            widths_[i]);
    }
    if (options_.placement.num_ranks == 1) CheckNumKeysFits(options_, num_rows);
  }

  const TableOptions options_;
  const std::vector<int64_t> widths_;
  std::unique_ptr<const DumpFormat> format_;
  std::optional<DumpSource> source_;
};

class RestoreTableOp : public WholeTableOp {
 public:
  explicit RestoreTableOp(tf::OpKernelConstruction* ctx)
      : WholeTableOp(ctx), attributes_(ctx), keys_(KindOfKeys(ctx)) {}

 protected:
  void Move(tf::OpKernelContext* ctx, OpCall& call, TableResource& table,
            RankCommunicator& communicator) override {
    communicator.Begin();
    const std::string folder = FolderOfRanks(ctx, communicator);
    communicator.AwaitTurn();
    const auto fill = [&](const TableView& view, const TableView& fresh) {
      communicator.GiveTurn();
      const Placement& placement = view.options().placement;
      OpenedDump dump(folder, attributes_, fresh, communicator);
      const std::string about = dump.source() ? std::to_string(dump.num_keys()) : "";
      TableFromBlocks filled(call, fresh, keys_, std::stoll(communicator.Share(about)[0]));
      ForEachOwnedBlock(communicator, placement, dump.widths(), dump.source(),
                        [&](const RowsBlock& block) { filled.Put(block); });
      bool are_repeated = filled.End();
      for (const std::string& each : communicator.Share(are_repeated ? "repeated" : ""))
        are_repeated = are_repeated || !each.empty();
      if (are_repeated && dump.source()) dump.ThrowRepeatedKey(keys_);
      communicator.Share();  // all ranks have filled it
    };
    table.Replace(call, attributes_.slot_names(), fill);
  }

 private:
  const DumpAttributes attributes_;
  const KeysOf keys_;
};

class CheckDumpOp : public WholeTableOp {
 public:
  explicit CheckDumpOp(tf::OpKernelConstruction* ctx)
      : WholeTableOp(ctx), attributes_(ctx), keys_(KindOfKeys(ctx)) {}

 protected:
  void Move(tf::OpKernelContext* ctx, OpCall& call, TableResource& table,
            RankCommunicator& communicator) override {
    communicator.Begin();
    const std::string folder = FolderOfRanks(ctx, communicator);
    TableOptions options;
    std::optional<OpenedDump> dump;
    table.WithSlots(call, attributes_.slot_names(), [&](const TableView& view) {
      options = view.options();
      dump.emplace(folder, attributes_, view, communicator);
    });
    if (Input(ctx, "reads").scalar<bool>()()) {
      std::vector<int64_t> keys;
      ForEachOwnedBlock(communicator, options.placement, dump->widths(), dump->source(),
                        [&](const RowsBlock& block) {
                          keys.insert(keys.end(), block.keys, block.keys + block.count);
                        });
      SortKeysThatFit(options, &keys, keys_);
    }
    communicator.Share();
  }

 private:
  const DumpAttributes attributes_;
  const KeysOf keys_;
};

SOK_REGISTER_KERNEL(
    Name("SokRestoreTable").HostMemory("table").HostMemory("folder").HostMemory("collectives"),
    RestoreTableOp);
SOK_REGISTER_KERNEL(Name("SokCheckDump")
                        .HostMemory("table")
                        .HostMemory("folder")
                        .HostMemory("reads")
                        .HostMemory("collectives"),
                    CheckDumpOp);

}  // namespace
}  // namespace sok
