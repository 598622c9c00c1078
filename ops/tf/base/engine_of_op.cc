// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/base/engine_of_op.h"

#if SOK_HAS_CUDA
#include "ops/cuda/cuda_engine.h"
#include "xla/stream_executor/stream.h"
#endif

namespace sok {

namespace {

#if SOK_HAS_CUDA
bool IsOnGpu(tf::OpKernelContext* ctx) {
  return ctx->op_device_context() != nullptr && ctx->op_device_context()->stream() != nullptr;
}

DeviceStream StreamOf(tf::OpKernelContext* ctx) {
  if (!IsOnGpu(ctx)) return nullptr;
  return ctx->op_device_context()->stream()->platform_specific_handle().stream;
}
#else
DeviceStream StreamOf(tf::OpKernelContext*) { return nullptr; }
#endif

}  // namespace

Engine& EngineOf(tf::OpKernelContext* ctx) {
#if SOK_HAS_CUDA
  if (IsOnGpu(ctx)) return CudaEngineOf(StreamOf(ctx));
#endif
  (void)ctx;
  return EngineOfCpuDevice();
}

OpCall::OpCall(tf::OpKernelContext* ctx)
    : ctx_(ctx),
      op_executor_(ctx),
      executor_(op_executor_),
      stream_(StreamOf(ctx)),
      engine_(EngineOf(ctx)) {}

OpCall::OpCall(tf::OpKernelContext* ctx, Executor& executor)
    : ctx_(ctx),
      op_executor_(ctx),
      executor_(executor),
      stream_(StreamOf(ctx)),
      engine_(EngineOf(ctx)) {}

void* OpCall::TemporaryBytes(int64_t bytes) {
  tf::Tensor& temporary = temporaries_.emplace_back();
  ThrowIfError(ctx_->allocate_temp(tf::DT_INT8, {bytes}, &temporary));
  return temporary.data();
}

}  // namespace sok
