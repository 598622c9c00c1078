// SPDX-License-Identifier: Apache-2.0
// Ops that dump tables: all of one dump at the same moment, committed at once.
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/formats/dumps/dump_writer.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/shared_variant.h"
#include "ops/tf/base/tf_file_system.h"
#include "ops/tf/checkpoint/dump/dump_attributes.h"
#include "ops/tf/ranks/checkpoint_barrier.h"
#include "ops/tf/ranks/gathered_parts.h"
#include "ops/tf/ranks/whole_table_op.h"
#include "ops/tf/tables/contents/live_keys.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

REGISTER_OP("SokBeginDump")
    .Input("steps: variant")
    .Output("dump: variant")
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
  std::shared_ptr<CheckpointBarrier> steps;
  std::mutex mutex;                  // tables come one after the other
  std::optional<DumpWriter> writer;  // rank 0's, from the first table on
};

std::shared_ptr<DumpTransaction> DumpIn(tf::OpKernelContext* ctx) {
  return SharedInput<DumpTransaction>(ctx, "dump", "SokBeginDump");
}

void BeginDump(tf::OpKernelContext* ctx) {
  const auto dump = std::make_shared<DumpTransaction>();
  dump->steps = BarrierIn(ctx);
  OutputShared(ctx, "dump", dump);
}

/// Rank 0 writes; the others send their columns to it, one rank after the other.
class DumpTableOp : public WholeTableOp {
 public:
  explicit DumpTableOp(tf::OpKernelConstruction* ctx) : WholeTableOp(ctx), attributes_(ctx) {}

 protected:
  void Move(tf::OpKernelContext* ctx, OpCall& call, TableResource& table,
            RankCommunicator& communicator) override {
    const std::shared_ptr<DumpTransaction> dump = DumpIn(ctx);
    communicator.AwaitTurn();
    table.WithAlone(call, attributes_.slot_names(), [&](const TableView& view) {
      communicator.GiveTurn();
      communicator.CheckConnects(view.options().placement.num_ranks);
      const std::lock_guard<std::mutex> lock(dump->mutex);
      std::vector<Column> columns = ColumnsOf(call, view, Element::kFloat32);
      columns.resize(1 + view.places.size());  // the files have no others
      const std::unique_ptr<KeysInOrder> keys = Keys(call, view, &columns);
      GatheredRows sink(communicator, communicator.rank() == 0 ? &Begin(ctx, *dump) : nullptr);
      MoveRows(*keys, columns, sink);
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

  /// Of a replicated table, rank 0's.
  std::unique_ptr<KeysInOrder> Keys(OpCall& call, const TableView& view,
                                    std::vector<Column>* columns) const {
    const TableOptions& options = view.options();
    const Placement& placement = options.placement;
    if (placement.kind == Placement::Kind::kReplicated && placement.rank != 0)
      return std::make_unique<Entries>(call, TableEntries{});
    if (options.use_hash_index) return std::make_unique<LiveKeys>(call, view);
    const int64_t end = attributes_.num_keys() < 0 ? INT64_MAX : attributes_.num_keys();
    return std::make_unique<KeyRange>(call, view, end, columns);
  }

  const DumpAttributes attributes_;
};

class CommitDumpOp : public CommunicatingOp {
 public:
  using CommunicatingOp::CommunicatingOp;

 protected:
  void Run(tf::OpKernelContext* ctx, RankCommunicator& communicator) override {
    const std::shared_ptr<DumpTransaction> dump = DumpIn(ctx);
    dump->steps->Release();  // all ranks have sent their rows; steps need not wait for the disk
    if (dump->writer) dump->writer->Commit();
    communicator.Share();
  }
};

const RegisteredKernel kDumpKernels[] = {
    {"SokBeginDump", Make<KernelOf<Calls<BeginDump>>>, {"steps", "dump"}},
    {"SokDumpTable", Make<DumpTableOp>, {"table", "dump", "folder", "collectives"}},
    {"SokCommitDump", Make<CommitDumpOp>, {"dump", "collectives"}},
};

}  // namespace
}  // namespace sok
