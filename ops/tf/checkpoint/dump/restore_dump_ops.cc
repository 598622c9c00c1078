// SPDX-License-Identifier: Apache-2.0
// Ops that read dumps. Rank 0 reads, and sends each rank its rows.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/formats/dumps/dump_source.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/tf_file_system.h"
#include "ops/tf/checkpoint/dump/dump_attributes.h"
#include "ops/tf/checkpoint/dump/restored_dump.h"
#include "ops/tf/ranks/whole_table_op.h"
#include "ops/tf/tables/contents/table_from_rows.h"
#include "ops/tf/tables/resource/table_attributes.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

namespace tf = tensorflow;

REGISTER_OP("SokRestoreTable")
    .Input("table: resource")
    .Input("folder: string") SOK_COLLECTIVES.SetIsStateful() SOK_DUMP_ATTRIBUTES
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Makes the table hold exactly the contents of the files, on all ranks or on none; slots "
        "that are not named start at their initial values. Files that do not fit leave it "
        "unchanged. `collectives` as for SokDumpTable.");

REGISTER_OP("SokCheckDump")
    .Input("table: resource")
    .Input("folder: string")
    .Input("reads: bool") SOK_COLLECTIVES.SetIsStateful() SOK_DUMP_ATTRIBUTES
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

/// The base of ops that read a dump.
class DumpReadingOp : public WholeTableOp {
 public:
  explicit DumpReadingOp(tf::OpKernelConstruction* ctx)
      : WholeTableOp(ctx), attributes_(ctx), keys_(KindOfKeys(ctx)) {}

 protected:
  void Move(tf::OpKernelContext* ctx, OpCall& call, TableResource& table,
            RankCommunicator& communicator) override {
    communicator.Begin();
    Read(ctx, call, table, communicator, FolderOfRanks(ctx, communicator));
    communicator.Share();  // all ranks have read it
  }
  virtual void Read(tf::OpKernelContext* ctx, OpCall& call, TableResource& table,
                    RankCommunicator& communicator, const std::string& folder) = 0;

  const DumpAttributes attributes_;
  const KeysOf keys_;
};

class RestoreTableOp : public DumpReadingOp {
 public:
  using DumpReadingOp::DumpReadingOp;

 protected:
  void Read(tf::OpKernelContext* /*ctx*/, OpCall& call, TableResource& table,
            RankCommunicator& communicator, const std::string& folder) override {
    communicator.AwaitTurn();
    table.Replace(call, attributes_.slot_names(),
                  [&](const TableView& /*view*/, const TableView& fresh) {
                    communicator.GiveTurn();
                    OpenedDump dump(folder, attributes_, fresh, communicator);
                    const bool are_repeated = Fill(call, communicator, dump, fresh);
                    if (communicator.ShareAny(are_repeated) && dump.source())
                      dump.ThrowRepeatedKey(keys_);
                    communicator.Share();  // all ranks have filled it
                  });
  }

 private:
  /// Returns whether keys were repeated on this rank.
  bool Fill(OpCall& call, RankCommunicator& communicator, OpenedDump& dump,
            const TableView& fresh) const {
    const TableOptions& options = fresh.options();
    const int64_t expected = communicator.ShareNumber(dump.source() ? dump.num_keys() : 0)[0];
    TableFromRows filled(call, fresh, std::min(expected, options.capacity), RowsOfPart(options.dim),
                         /*are_distinct=*/false);
    int64_t num_keys = 0;
    ForEachOwnedBlock(communicator, options.placement, dump.widths(), dump.source(),
                      [&](const RowsBlock& block) {
                        num_keys += block.count;
                        CheckNumKeysFits(options, num_keys);
                        CheckKeysFitOneByOne(options, block.count, block.keys, keys_);
                        if (block.count == 0) return;
                        const auto numbers = [&](size_t column) {
                          return column < block.planes.size() ? block.planes[column] : nullptr;
                        };
                        if (options.use_hash_index)
                          filled.Append(block.count, block.keys, numbers);
                        else
                          filled.Insert(block.count, block.keys, numbers);
                      });
    return filled.EndAppending() > 0 || fresh.table.Size(call).num_keys != num_keys;
  }
};

class CheckDumpOp : public DumpReadingOp {
 public:
  using DumpReadingOp::DumpReadingOp;

 protected:
  void Read(tf::OpKernelContext* ctx, OpCall& call, TableResource& table,
            RankCommunicator& communicator, const std::string& folder) override {
    TableOptions options;
    std::optional<OpenedDump> dump;
    table.WithSlots(call, attributes_.slot_names(), [&](const TableView& view) {
      options = view.options();
      dump.emplace(folder, attributes_, view, communicator);
    });
    if (!Input(ctx, "reads").scalar<bool>()()) return;
    std::vector<int64_t> keys;
    ForEachOwnedBlock(communicator, options.placement, dump->widths(), dump->source(),
                      [&](const RowsBlock& block) {
                        keys.insert(keys.end(), block.keys, block.keys + block.count);
                      });
    SortKeysThatFit(options, &keys, keys_);
  }
};

const RegisteredKernel kRestoreDumpKernels[] = {
    {"SokRestoreTable", Make<RestoreTableOp>, {"table", "folder", "collectives"}},
    {"SokCheckDump", Make<CheckDumpOp>, {"table", "folder", "reads", "collectives"}},
};

}  // namespace
}  // namespace sok
