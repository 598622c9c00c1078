// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/device_call.h"

#include "ops/tf/border.h"
#if SOK_HAS_CUDA
#include "ops/cuda/cuda_engine.h"
#include "xla/stream_executor/stream.h"
#endif

namespace sok {

namespace tf = tensorflow;

namespace {

#if SOK_HAS_CUDA
bool IsOnGpu(tf::OpKernelContext* ctx) {
  return ctx->op_device_context() != nullptr && ctx->op_device_context()->stream() != nullptr;
}

DeviceStream StreamOf(tf::OpKernelContext* ctx) {
  if (!IsOnGpu(ctx)) return nullptr;
  return ctx->op_device_context()->stream()->platform_specific_handle().stream;
}

DeviceEngine& EngineOf(tf::OpKernelContext* ctx, DeviceStream stream) {
  return IsOnGpu(ctx) ? CudaEngineOf(stream) : HostEngine();
}
#else
DeviceStream StreamOf(tf::OpKernelContext*) { return nullptr; }

DeviceEngine& EngineOf(tf::OpKernelContext*, DeviceStream) { return HostEngine(); }
#endif

}  // namespace

DeviceCall::DeviceCall(tf::OpKernelContext* ctx)
    : ctx_(ctx), stream_(StreamOf(ctx)), engine_(EngineOf(ctx, stream_)) {}

void* DeviceCall::TemporaryBytes(int64_t bytes) {
  tf::Tensor& temporary = temporaries_.emplace_back();
  ThrowIfError(ctx_->allocate_temp(tf::DT_INT8, {bytes}, &temporary));
  return temporary.data();
}

}  // namespace sok
