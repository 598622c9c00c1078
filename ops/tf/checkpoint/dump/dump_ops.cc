// SPDX-License-Identifier: Apache-2.0
// Ops that dump tables: all of one dump at the same moment, committed at once.
#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/formats/dumps/dump_writer.h"
#include "ops/formats/files/checkpoint_progress.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/shared_variant.h"
#include "ops/tf/base/tf_file_system.h"
#include "ops/tf/checkpoint/dump/dump_attributes.h"
#include "ops/tf/ranks/checkpoint_barrier.h"
#include "ops/tf/ranks/gathered_parts.h"
#include "ops/tf/ranks/whole_table_op.h"
#include "ops/tf/tables/contents/table_contents.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

namespace tf = tensorflow;

REGISTER_OP("SokBeginDump")
    .Input("steps: variant")
    .Output("dump: variant")
    .Attr("num_ranks: int >= 1")
    .Attr("rank: int >= 0")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc(
        "Begins a dump of tables. `steps`: of SokHoldCheckpointBarrier; they are held until all "
        "tables have been read. Unless SokCommitDump follows, nothing is left of it.");

REGISTER_OP("SokDumpTable")
    .Input("table: resource")
    .Input("dump: variant")
    .Input("folder: string") SOK_COLLECTIVES.SetIsStateful() SOK_DUMP_ATTRIBUTES
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Writes the keys, and rows and slots in the same order, to files in the folder, which are "
        "a dump once SokCommitDump has run. Rank 0 writes; its result is that of all ranks. "
        "`collectives`: one if other ranks take part, else empty.");

REGISTER_OP("SokCommitDump")
    .Input("dump: variant") SOK_COLLECTIVES.SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("Replaces earlier dumps of the tables atomically once all bytes are on the disk.");

/// The state shared by the ops of one dump.
struct DumpTransaction {
  int64_t num_ranks = 1, rank = 0;
  std::shared_ptr<CheckpointBarrier> steps;
  std::mutex mutex;                  // tables come one after the other
  std::optional<DumpWriter> writer;  // rank 0's, from the first table on
};

std::shared_ptr<DumpTransaction> DumpIn(tf::OpKernelContext* ctx) {
  const tf::Tensor& tensor = Input(ctx, "dump");
  if (auto dump = SharedIn<DumpTransaction>(tensor)) return dump;
  Throw(ErrorCode::kInvalidArgument, "input `dump` must be the output of SokBeginDump, got ",
        tensor.DebugString());
}

class BeginDumpOp : public tf::OpKernel {
 public:
  explicit BeginDumpOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        num_ranks_(Attribute<int64_t>(ctx, "num_ranks")),
        rank_(Attribute<int64_t>(ctx, "rank")) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const auto dump = std::make_shared<DumpTransaction>();
      dump->num_ranks = num_ranks_;
      dump->rank = rank_;
      dump->steps = BarrierIn(ctx);
      OutputShared(ctx, "dump", dump);
    });
  }

 private:
  const int64_t num_ranks_, rank_;
};

/// Reads a table's entries; of keys 0 to num_keys - 1 only, unless that is below 0.
class DumpedContents : public TableContents {
 public:
  DumpedContents(OpCall& call, const TableView& view, int64_t num_keys)
      : TableContents(call, view), count_(size()) {
    const Placement& placement = options().placement;
    if (placement.kind == Placement::Kind::kReplicated && placement.rank != 0) count_ = 0;
    while (num_keys >= 0 && count_ > 0 && placement.GlobalKey(count_ - 1) >= num_keys) --count_;
  }

  /// Calls use(data, bytes) for all of a column, part by part.
  template <typename Use>
  void ForEachPart(size_t column, const Use& use) {
    const int64_t most = std::min(count_, RowsOfPart(std::max<int64_t>(2, width(column))));
    std::vector<char> data(static_cast<size_t>(most * row_bytes(column)));
    for (int64_t first = 0; first < count_; first += most) {
      const int64_t count = std::min(most, count_ - first);
      Read(column, first, count, data.data());
      use(data.data(), static_cast<size_t>(count * row_bytes(column)));
    }
  }

 private:
  int64_t count_;
};

/// Rank 0 writes; the others send their columns to it, one rank after the other.
class DumpTableOp : public WholeTableOp {
 public:
  explicit DumpTableOp(tf::OpKernelConstruction* ctx) : WholeTableOp(ctx), attributes_(ctx) {}

 protected:
  void Move(tf::OpKernelContext* ctx, OpCall& call, TableResource& table,
            RankCommunicator& communicator) override {
    const std::shared_ptr<DumpTransaction> dump = DumpIn(ctx);
    communicator.AwaitTurn();
    table.WithAlone(call, attributes_.slot_names(), {}, [&](const TableView& view) {
      communicator.GiveTurn();
      const std::lock_guard<std::mutex> lock(dump->mutex);
      DumpedContents contents(call, view, attributes_.num_keys());
      RowsSink* const sink = dump->rank == 0 ? &Begin(ctx, *dump) : nullptr;
      for (size_t column = 0; column < contents.num_columns(); ++column)
        MoveColumn(communicator, *dump, contents, column, sink);
    });
    communicator.Share();
  }

 private:
  RowsSink& Begin(tf::OpKernelContext* ctx, DumpTransaction& dump) const {
    const std::string folder = CleanFolder(Input(ctx, "folder").scalar<tf::tstring>()());
    auto format = attributes_.Format(folder, /*dim=*/0);
    if (!dump.writer) dump.writer.emplace(TfFileSystem(), FolderOf(format->note()));
    return dump.writer->Add(std::move(format));
  }

  static void MoveColumn(RankCommunicator& communicator, const DumpTransaction& dump,
                         DumpedContents& contents, size_t column, RowsSink* sink) {
    const auto row_bytes = static_cast<size_t>(contents.row_bytes(column));
    const auto append = [&](const char* data, size_t num_bytes) {
      sink->Append(column, static_cast<int64_t>(num_bytes / row_bytes), contents.width(column),
                   data);
      NoteCheckpointBytes(static_cast<int64_t>(num_bytes));
    };
    if (dump.rank == 0) {
      append(nullptr, 0);  // of no keys, too
      contents.ForEachPart(column, append);
    }
    if (dump.num_ranks == 1) return;
    GatheredParts parts(communicator, row_bytes);
    for (int64_t sender = 1; sender < dump.num_ranks; ++sender) {
      if (dump.rank == 0) {
        parts.Receive(
            [&](int64_t, const char* data, size_t num_bytes) { append(data, num_bytes); });
        continue;
      }
      if (dump.rank == sender) {
        contents.ForEachPart(
            column, [&](const char* data, size_t num_bytes) { parts.Send(data, num_bytes); });
      }
      parts.EndSending();
    }
  }

  const DumpAttributes attributes_;
};

class CommitDumpOp : public CommunicatingOp {
 public:
  using CommunicatingOp::CommunicatingOp;

 protected:
  void Run(tf::OpKernelContext* ctx, std::shared_ptr<const CollectiveHandle> held) override {
    const std::shared_ptr<DumpTransaction> dump = DumpIn(ctx);
    RankCommunicator communicator(ctx, dump->num_ranks, dump->rank, std::move(held));
    dump->steps->Release();  // all ranks have sent their rows; steps need not wait for the disk
    if (dump->writer) dump->writer->Commit();
    communicator.Share();
  }
};

const RegisteredKernel kDumpKernels[] = {
    {"SokBeginDump", Make<BeginDumpOp>, {"steps", "dump"}},
    {"SokDumpTable", Make<DumpTableOp>, {"table", "dump", "folder", "collectives"}},
    {"SokCommitDump", Make<CommitDumpOp>, {"dump", "collectives"}},
};

}  // namespace
}  // namespace sok
