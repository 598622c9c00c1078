// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/exchange_op.h"

#include <memory>
#include <utility>

#include "ops/tf/border.h"
#include "ops/tf/exchange_service.h"
#include "tensorflow/core/framework/cancellation.h"

namespace sok {
namespace {

namespace tf = tensorflow;

/// When another op of the step fails, or its time is over, no rank waits for the step any more.
tf::CancellationToken FailStepOnCancel(tf::OpKernelContext* ctx,
                                       const std::shared_ptr<Coordinator>& coordinator) {
  tf::CancellationManager* manager = ctx->cancellation_manager();
  if (!manager) return tf::CancellationManager::kInvalidToken;
  const tf::CancellationToken token = manager->get_cancellation_token();
  const int64_t step_id = ctx->step_id();
  const auto fail_step = [coordinator, step_id] {
    coordinator->FailStep(step_id, "the step was cancelled, or another op of it failed");
  };
  if (!manager->RegisterCallback(token, fail_step)) fail_step();
  return token;
}

}  // namespace

void ExchangeOp::ComputeAsync(tf::OpKernelContext* ctx, DoneCallback done) {
  const std::shared_ptr<Coordinator> coordinator = CurrentCoordinator();
  ExchangeRequest request;
  FailStepOnThrow(ctx, [&] {
    if (!coordinator) {
      Throw(ErrorCode::kFailedPrecondition, name(),
            ": run what sok.Init returned in this process first");
    }
    request.kind = type_string();
    request.name = name();
    request.step_id = ctx->step_id();
    Send(ctx, &request);
  });
  if (!ctx->status().ok()) {
    done();
    return;
  }
  const auto token = FailStepOnCancel(ctx, coordinator);
  request.done = [this, ctx, done, token](ExchangeResult result) {
    if (ctx->cancellation_manager()) ctx->cancellation_manager()->DeregisterCallback(token);
    if (result.error.empty()) {
      FailStepOnThrow(ctx, [&] { Receive(ctx, result); });
    } else {
      ctx->CtxFailure(absl::AbortedError(result.error));
    }
    done();
  };
  coordinator->Submit(std::move(request));  // `ctx` may be gone when it returns
}

}  // namespace sok
