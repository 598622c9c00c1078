// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/ranks/exchange_op.h"

#include <memory>
#include <utility>

#include "ops/tf/base/border.h"

namespace sok {
namespace {

absl::Status StatusOf(const ExchangeResult& result) {
  return ToStatus(Error(result.code, result.error));
}

}  // namespace

ExchangeOp::ExchangeOp(tf::OpKernelConstruction* ctx)
    : tf::AsyncOpKernel(ctx), exchange_(type_string()) {
  if (!ctx->HasAttr("occurrence")) return;
  const auto occurrence = Attribute<int64_t>(ctx, "occurrence");
  if (occurrence > 0) exchange_ += "_" + std::to_string(occurrence);
}

/// An op that waits for its exchange.
struct ExchangeOp::PendingExchange {
  tf::OpKernelContext* ctx;
  std::shared_ptr<const CollectiveHandle> handle;
  CancelWatch watch;
  DoneCallback done;
};

void ExchangeOp::ComputeAsync(tf::OpKernelContext* ctx, DoneCallback done) {
  std::shared_ptr<const CollectiveHandle> handle;
  ExchangeRequest request;
  FailLookupOnThrow(ctx, nullptr, [&] { handle = CollectiveHandleIn(Input(ctx, "collective")); });
  if (handle) FailLookupOnThrow(ctx, handle.get(), [&] { Send(ctx, &request); });
  if (!ctx->status().ok()) {
    done();
    return;
  }
  const std::shared_ptr<PendingExchange> pending(
      new PendingExchange{ctx, handle, {ctx, handle}, std::move(done)});
  request.collective = handle->collective();
  request.exchange = exchange_;
  request.step_id = StepIdOf(ctx);
  request.done = [this, pending](const ExchangeResult& result) { Finish(pending, result); };
  handle->shared_coordinator()->Submit(
      std::move(request));  // the context may be destroyed afterwards
}

void ExchangeOp::Finish(const std::shared_ptr<PendingExchange>& pending,
                        const ExchangeResult& result) {
  tf::OpKernelContext* const ctx = pending->ctx;
  if (!result.error.empty()) {
    ctx->CtxFailure(StatusOf(result));
  } else {
    FailLookupOnThrow(ctx, pending->handle.get(), [&] { Receive(ctx, result); });
  }
  pending->watch.Stop();
  pending->done();
}

}  // namespace sok
