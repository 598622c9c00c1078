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
      : options_(view.options()), widths_{1, options_.dim} {
    for (const size_t place : view.places)
      widths_.push_back(view.planes.slots[place].plane->width());
    if (options_.placement.rank != 0 && communicator.is_connected()) return;
    format_ = attributes.Format(folder, options_.dim);
    files_.emplace(TfFileSystem(), *format_);
    CheckFits(attributes);
  }

  const TableOptions& options() const { return options_; }
  /// This rank's rows.
  RowsOfRank0 Source(RankCommunicator& communicator) {
    std::vector<int64_t> row_bytes{sizeof(int64_t)};
    for (size_t column = 1; column < widths_.size(); ++column)
      row_bytes.push_back(widths_[column] * int64_t{sizeof(float)});
    return {communicator, options_.placement, files_ ? &*files_ : nullptr, std::move(row_bytes)};
  }

  /// Where the files are open, throws an error that names a repeated key.
  void ThrowRepeatedKey(KeysOf are) {
    if (!files_) return;
    TableOptions options = options_;
    options.placement.num_ranks = 1;
    std::vector<int64_t> keys(static_cast<size_t>(files_->num_keys()));
    files_->Rewind();
    files_->Read(0, 0, files_->num_keys(), reinterpret_cast<char*>(keys.data()));
    CheckKeysFit(options, std::move(keys), are);
    Throw(ErrorCode::kDataLoss, files_->stored(0).path, " has changed while it was read");
  }

 private:
  void CheckFits(const DumpAttributes& attributes) const {
    const int64_t num_keys = files_->num_keys();
    if (attributes.num_keys() >= 0 && num_keys != attributes.num_keys()) {
      Throw(ErrorCode::kInvalidArgument, files_->stored(0).path, " has ", num_keys, " keys, but ",
            attributes.table_name(), " has ", attributes.num_keys(), " rows");
    }
    for (size_t i = 1; i < widths_.size(); ++i) {
      if (num_keys == 0 || files_->width(i) == widths_[i]) continue;
      Throw(ErrorCode::kInvalidArgument, files_->stored(i).path, " has rows of ", files_->width(i),
            " numbers, but those of ", attributes.table_name(), " have ", widths_[i]);
    }
    if (options_.placement.num_ranks == 1) CheckNumKeysFits(options_, num_keys);
  }

  const TableOptions options_;
  std::vector<int64_t> widths_;  // by column
  std::unique_ptr<const DumpFormat> format_;
  std::optional<DumpSource> files_;
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
                    if (communicator.ShareAny(are_repeated)) dump.ThrowRepeatedKey(keys_);
                    communicator.Share();  // all ranks have filled it
                  });
  }

 private:
  /// Returns whether keys were repeated on this rank.
  bool Fill(OpCall& call, RankCommunicator& communicator, OpenedDump& dump,
            const TableView& fresh) const {
    const TableOptions& options = fresh.options();
    RowsOfRank0 source = dump.Source(communicator);
    TableFromRows filled(call, fresh, std::min(source.num_keys(), options.capacity),
                         RowsOfPart(options.dim));
    int64_t num_keys = 0;
    filled.Fill(
        source,
        options.use_hash_index ? TableFromRows::Keys::kAppended : TableFromRows::Keys::kInserted,
        [&](const RowsBlock& block) {
          num_keys += block.count;
          CheckNumKeysFits(options, num_keys);
          CheckKeysFitOneByOne(options, block.count, block.keys(), keys_);
        });
    return filled.AreRepeated();
  }
};

class CheckDumpOp : public DumpReadingOp {
 public:
  using DumpReadingOp::DumpReadingOp;

 protected:
  void Read(tf::OpKernelContext* ctx, OpCall& call, TableResource& table,
            RankCommunicator& communicator, const std::string& folder) override {
    std::optional<OpenedDump> dump;
    table.WithSlots(call, attributes_.slot_names(), [&](const TableView& view) {
      dump.emplace(folder, attributes_, view, communicator);
    });
    if (!Input(ctx, "reads").scalar<bool>()()) return;
    std::vector<int64_t> keys;
    dump->Source(communicator).ForEachBlock([&](const RowsBlock& block) {
      keys.insert(keys.end(), block.keys(), block.keys() + block.count);
    });
    SortKeysThatFit(dump->options(), &keys, keys_);
  }
};

const RegisteredKernel kRestoreDumpKernels[] = {
    {"SokRestoreTable", Make<RestoreTableOp>, {"table", "folder", "collectives"}},
    {"SokCheckDump", Make<CheckDumpOp>, {"table", "folder", "reads", "collectives"}},
};

}  // namespace
}  // namespace sok
