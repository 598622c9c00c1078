// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/ranks/whole_table_op.h"

#include <system_error>
#include <utility>

namespace sok {

namespace tf = tensorflow;

void CommunicatingOp::ComputeAsync(tf::OpKernelContext* ctx, DoneCallback done) {
  std::shared_ptr<const CollectiveHandle> held;
  FailLookupOnThrow(ctx, nullptr, [&] { held = OptionalCollective(ctx); });
  if (!ctx->status().ok()) return done();
  const auto run = [this, ctx, held, done] {
    FailLookupOnThrow(ctx, held.get(), [&] { Run(ctx, held); });
    done();
  };
  try {
    ctx->env()->SchedClosure(run);
  } catch (const std::system_error& error) {  // there is no thread to be had
    if (held == nullptr) return run();        // and no other rank to wait for
    FailLookupOnThrow(ctx, held.get(), [&] { throw error; });
    done();
  }
}

void WholeTableOp::Run(tf::OpKernelContext* ctx, std::shared_ptr<const CollectiveHandle> held) {
  OpCall call(ctx);
  const auto table = LookupTable(ctx, HandleIn(ctx, "table"));
  table->NoteStep(ctx);
  Placement placement;
  table->WithTable([&](const TableView& view) { placement = view.options().placement; });
  RankCommunicator communicator(ctx, placement.num_ranks, placement.rank, std::move(held));
  Move(ctx, call, *table, communicator);
}

}  // namespace sok
