// SPDX-License-Identifier: Apache-2.0
// The context that TensorFlow gives an op on a CPU, without a session.
#pragma once

#include <memory>

#include "ops/tf/base/engine_of_op.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace sok::testing {

class OpContext {
 public:
  OpContext();
  ~OpContext();
  tensorflow::OpKernelContext* get() { return context_.get(); }

 private:
  class CpuDevice;

  const std::unique_ptr<CpuDevice> device_;
  tensorflow::ResourceMgr resources_;
  std::unique_ptr<tensorflow::OpKernel> kernel_;
  tensorflow::OpKernelContext::Params params_;
  std::unique_ptr<tensorflow::OpKernelContext> context_;
};

}  // namespace sok::testing
