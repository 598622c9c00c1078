// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/whole_table_op.h"

#include <utility>

namespace sok {

namespace tf = tensorflow;

namespace {

/// The ticket among an op's inputs; null: it has none.
std::shared_ptr<const HeldTicket> TicketOf(tf::OpKernelContext* ctx) {
  tf::OpInputList tickets;
  ThrowIfError(ctx->input_list("tickets", &tickets));
  return tickets.size() == 0 ? nullptr : TicketIn(tickets[0]);
}

}  // namespace

void MeetingOp::ComputeAsync(tf::OpKernelContext* ctx, DoneCallback done) {
  ctx->env()->SchedClosure([this, ctx, done] {
    std::shared_ptr<const HeldTicket> held;
    FailLookupOnThrow(ctx, nullptr, [&] { held = TicketOf(ctx); });
    if (ctx->status().ok()) FailLookupOnThrow(ctx, held.get(), [&] { Run(ctx, held); });
    done();
  });
}

void WholeTableOp::Run(tf::OpKernelContext* ctx, std::shared_ptr<const HeldTicket> held) {
  OpCall call(ctx);
  const auto table = LookupTable(ctx, tf::HandleFromInput(ctx, 0));
  table->NoteStep(ctx);
  Placement placement;
  table->WithTable([&](Table& made) { placement = made.options().placement; });
  RankMeeting meeting(ctx, placement.num_ranks, placement.rank, std::move(held));
  Move(ctx, call, *table, meeting);
}

}  // namespace sok
