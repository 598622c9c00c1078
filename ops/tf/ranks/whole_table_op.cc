// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/ranks/whole_table_op.h"

#include <system_error>

namespace sok {

void CommunicatingOp::ComputeAsync(tf::OpKernelContext* ctx, DoneCallback done) {
  std::shared_ptr<const CollectiveHandle> handle;
  FailLookupOnThrow(ctx, nullptr, [&] { handle = OptionalCollective(ctx); });
  if (!ctx->status().ok()) return done();
  const auto run = [this, ctx, handle, done] {
    FailLookupOnThrow(ctx, handle.get(), [&] {
      RankCommunicator communicator(ctx, handle);
      Run(ctx, communicator);
    });
    done();
  };
  try {
    ctx->env()->SchedClosure(run);
  } catch (const std::system_error& error) {  // there is no thread to be had
    if (handle == nullptr) return run();      // and no other rank to wait for
    FailLookupOnThrow(ctx, handle.get(), [&] { throw error; });
    done();
  }
}

void WholeTableOp::Run(tf::OpKernelContext* ctx, RankCommunicator& communicator) {
  OpCall call(ctx);
  const auto table = LookupTable(ctx, HandleIn(ctx, "table"));
  table->NoteStep(ctx);
  Move(ctx, call, *table, communicator);
}

}  // namespace sok
