// SPDX-License-Identifier: Apache-2.0
// Where the core meets TensorFlow: errors, threads and tensors, translated once.
#ifndef SOK_OPS_TF_BASE_BORDER_H_
#define SOK_OPS_TF_BASE_BORDER_H_

#include <algorithm>
#include <exception>
#include <functional>
#include <new>

#include "ops/base/error.h"
#include "ops/base/threads/executor.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sok {

/// The tf.errors class that stands for a core error.
absl::Status ToStatus(const Error& error);

/// The core error that comes nearest to a status which is not OK.
ErrorCode CodeOf(const absl::Status& status);

/// Throws a core error when `status` is not OK, so that kernels have one way to fail.
void ThrowIfError(const absl::Status& status);

/// Runs a kernel's body, or what its constructor does; what it throws becomes the op's status.
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

/// No op's loop runs on more threads than so many from now on; at least 1.
void LimitOpThreads(int num_threads);
int MostOpThreads();

/// TensorFlow's own intra-op threads, as far as they are within the limit, and the thread that
/// asks, which waits for none that has not begun.
class OpExecutor : public Executor {
 public:
  explicit OpExecutor(tensorflow::OpKernelContext* ctx);
  int num_threads() const override;
  void ParallelFor(int64_t count, int64_t item_nanoseconds,
                   const std::function<void(int64_t begin, int64_t end)>& body) override;

 private:
  const tensorflow::DeviceBase::CpuWorkerThreads& threads_;
};

// Inputs and outputs of ops are taken by their names in the op's definition; `item`: of a list. A
// name that the op does not have is an error.

int PlaceOfInput(tensorflow::OpKernelContext* ctx, const char* name, int item = 0);
int PlaceOfOutput(tensorflow::OpKernelContext* ctx, const char* name, int item = 0);

const tensorflow::Tensor& Input(tensorflow::OpKernelContext* ctx, const char* name, int item = 0);

/// An input of `rank` dimensions, or an error that names the input.
const tensorflow::Tensor& InputOfRank(tensorflow::OpKernelContext* ctx, const char* name, int rank,
                                      int item = 0);

const tensorflow::ResourceHandle& HandleIn(tensorflow::OpKernelContext* ctx, const char* name,
                                           int item = 0);

/// An output, allocated.
tensorflow::Tensor& Output(tensorflow::OpKernelContext* ctx, const char* name,
                           const tensorflow::TensorShape& shape, int item = 0);

void SetOutput(tensorflow::OpKernelContext* ctx, const char* name, const tensorflow::Tensor& tensor,
               int item = 0);

template <typename T>
const T* Data(const tensorflow::Tensor& tensor) {
  return tensor.flat<T>().data();
}

template <typename T>
T* Data(tensorflow::Tensor& tensor) {
  return tensor.flat<T>().data();
}

/// Makes an output the vector of these values, on the host.
template <typename Vector>
void OutputVector(tensorflow::OpKernelContext* ctx, const char* name, const Vector& values,
                  int item = 0) {
  tensorflow::Tensor& output = Output(ctx, name, {static_cast<int64_t>(values.size())}, item);
  std::copy(values.begin(), values.end(), Data<typename Vector::value_type>(output));
}

template <typename T>
T Attribute(tensorflow::OpKernelConstruction* ctx, const char* name) {
  T value{};
  ThrowIfError(ctx->GetAttr(name, &value));
  return value;
}

}  // namespace sok

#endif  // SOK_OPS_TF_BASE_BORDER_H_
