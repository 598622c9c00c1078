// SPDX-License-Identifier: Apache-2.0
// The kernels of ops: how they run and fail, and their registration.
#pragma once

#include <initializer_list>
#include <optional>

#include "ops/tf/base/step_failure.h"
#include "tensorflow/core/framework/op_kernel.h"

/// In the definition of an op that takes part in collectives of all ranks, or none.
#define SOK_COLLECTIVES \
  .Input("collectives: num_collectives * variant").Attr("num_collectives: int >= 0")

namespace sok {

/// A kernel with an Op, which is made from the op's attributes and called for each step. Errors
/// that either throws are the kernel's.
template <typename Op>
class KernelOf : public tf::OpKernel {
 public:
  explicit KernelOf(tf::OpKernelConstruction* ctx) : tf::OpKernel(ctx) {
    FailOpOnThrow(ctx, [&] { op_.emplace(ctx); });
  }
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] { (*op_)(ctx); });
  }

 protected:
  std::optional<const Op> op_;
};

/// As KernelOf, for ops of a step in which other ranks take part: the step fails on them, too.
template <typename Op>
class StepKernelOf : public KernelOf<Op> {
 public:
  using KernelOf<Op>::KernelOf;
  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] { (*this->op_)(ctx); });
  }
};

/// The Op of an op without attributes: a function.
template <void (*kFunction)(tf::OpKernelContext* ctx)>
struct Calls {
  explicit Calls(tf::OpKernelConstruction*) {}
  void operator()(tf::OpKernelContext* ctx) const { kFunction(ctx); }
};

template <typename Kernel>
tf::OpKernel* Make(tf::OpKernelConstruction* ctx) {
  return new Kernel(ctx);
}

/// Registers the kernels of an op. Those of a file are a list.
class RegisteredKernel {
 public:
  enum class Devices { kCpu, kAll };  // kAll: GPUs, too, in a build with CUDA

  /// `on_host`: inputs and outputs that stay in the host's memory when the op is on a GPU.
  RegisteredKernel(const char* op, tf::OpKernel* (*make)(tf::OpKernelConstruction* ctx),
                   std::initializer_list<const char*> on_host, Devices devices = Devices::kAll);
};

}  // namespace sok
