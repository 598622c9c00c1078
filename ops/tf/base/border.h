// SPDX-License-Identifier: Apache-2.0
// The border between the core and TensorFlow: translates errors, threads and tensors.
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <new>

#include "ops/base/error.h"
#include "ops/base/threads/executor.h"
#include "ops/tf/base/namespace_tf.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sok {

/// The tf.errors class of a core error.
absl::Status ToStatus(const Error& error);

/// The core error nearest to a status that is not OK.
ErrorCode CodeOf(const absl::Status& status);

/// Throws a core error if `status` is not OK, so that kernels have one way to fail.
void ThrowIfError(const absl::Status& status);

/// Runs the body of a kernel or of its constructor; an exception becomes the op's status.
template <typename Context, typename Body>
void FailOpOnThrow(Context* ctx, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    ctx->CtxFailure(ToStatus(error));
  } catch (const std::bad_alloc&) {
    ctx->CtxFailure(absl::ResourceExhaustedError("out of memory"));
  } catch (const std::exception& error) {
    ctx->CtxFailure(absl::InternalError(error.what()));
  }
}

/// Limits the loops of later ops to this many threads; at least 1.
void LimitOpThreads(int num_threads);
int MostOpThreads();

/// TensorFlow's intra-op threads, up to the limit, and the calling thread, which never waits for a
/// thread that has not begun.
class OpExecutor : public Executor {
 public:
  explicit OpExecutor(tf::OpKernelContext* ctx);
  int num_threads() const override;
  void ParallelFor(int64_t count, int64_t item_nanoseconds,
                   const std::function<void(int64_t begin, int64_t end)>& body) override;

 private:
  const tf::DeviceBase::CpuWorkerThreads& threads_;
};

// Inputs and outputs are accessed by their names in the op's definition; `item`: index in a list.
// An unknown name is an error.

int PlaceOfInput(tf::OpKernelContext* ctx, const char* name, int item = 0);
int PlaceOfOutput(tf::OpKernelContext* ctx, const char* name, int item = 0);

const tf::Tensor& Input(tf::OpKernelContext* ctx, const char* name, int item = 0);

/// An input with `rank` dimensions; else an error that names the input.
const tf::Tensor& InputOfRank(tf::OpKernelContext* ctx, const char* name, int rank, int item = 0);

const tf::ResourceHandle& HandleIn(tf::OpKernelContext* ctx, const char* name, int item = 0);

/// Allocates an output.
tf::Tensor& Output(tf::OpKernelContext* ctx, const char* name, const tf::TensorShape& shape,
                   int item = 0);

void SetOutput(tf::OpKernelContext* ctx, const char* name, const tf::Tensor& tensor, int item = 0);

template <typename T>
const T* Data(const tf::Tensor& tensor) {
  return tensor.flat<T>().data();
}

template <typename T>
T* Data(tf::Tensor& tensor) {
  return tensor.flat<T>().data();
}

/// Makes an output a vector of these values, on the host.
template <typename Vector>
void OutputVector(tf::OpKernelContext* ctx, const char* name, const Vector& values, int item = 0) {
  tf::Tensor& output = Output(ctx, name, {static_cast<int64_t>(values.size())}, item);
  std::copy(values.begin(), values.end(), Data<typename Vector::value_type>(output));
}

template <typename T>
T Attribute(tf::OpKernelConstruction* ctx, const char* name) {
  T value{};
  ThrowIfError(ctx->GetAttr(name, &value));
  return value;
}

}  // namespace sok
