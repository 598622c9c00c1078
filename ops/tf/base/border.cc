// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/base/border.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>

#include "ops/base/threads/shared_loop.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace sok {

absl::Status ToStatus(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kInvalidArgument:
      return absl::InvalidArgumentError(error.what());
    case ErrorCode::kFailedPrecondition:
      return absl::FailedPreconditionError(error.what());
    case ErrorCode::kOutOfCapacity:
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kNoSpace:
      return absl::ResourceExhaustedError(error.what());
    case ErrorCode::kNotFound:
      return absl::NotFoundError(error.what());
    case ErrorCode::kPermissionDenied:
      return absl::PermissionDeniedError(error.what());
    case ErrorCode::kDataLoss:
      return absl::DataLossError(error.what());
    case ErrorCode::kIo:
    case ErrorCode::kAborted:  // not Aborted: recoverable sessions would retry for ever
      return absl::UnknownError(error.what());
    case ErrorCode::kCancelled:
      return absl::CancelledError(error.what());
    case ErrorCode::kDeadlineExceeded:
      return absl::DeadlineExceededError(error.what());
    case ErrorCode::kCuda:
      return absl::InternalError(error.what());
  }
  return absl::InternalError(error.what());
}

ErrorCode CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kFailedPrecondition:
      return ErrorCode::kFailedPrecondition;
    case absl::StatusCode::kResourceExhausted:
      return ErrorCode::kOutOfMemory;
    case absl::StatusCode::kNotFound:
      return ErrorCode::kNotFound;
    case absl::StatusCode::kPermissionDenied:
      return ErrorCode::kPermissionDenied;
    case absl::StatusCode::kDataLoss:
      return ErrorCode::kDataLoss;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kUnknown:
      return ErrorCode::kIo;
    case absl::StatusCode::kCancelled:
      return ErrorCode::kCancelled;
    case absl::StatusCode::kDeadlineExceeded:
      return ErrorCode::kDeadlineExceeded;
    default:
      return ErrorCode::kInvalidArgument;
  }
}

void ThrowIfError(const absl::Status& status) {
  if (!status.ok()) throw Error(CodeOf(status), std::string(status.message()));
}

namespace {

std::atomic<int> most_op_threads{std::numeric_limits<int>::max()};

}  // namespace

void LimitOpThreads(int num_threads) { most_op_threads = std::max(1, num_threads); }

int MostOpThreads() { return most_op_threads; }

OpExecutor::OpExecutor(tf::OpKernelContext* ctx)
    : threads_(*ctx->device()->tensorflow_cpu_worker_threads()) {}

int OpExecutor::num_threads() const { return std::min(threads_.num_threads, MostOpThreads()); }

void OpExecutor::ParallelFor(int64_t count, int64_t item_nanoseconds,
                             const std::function<void(int64_t begin, int64_t end)>& body) {
  if (count <= 0) return;
  const int64_t num_parts = SharedLoop::NumParts(count, item_nanoseconds, num_threads());
  if (num_parts == 1) return body(0, count);
  const auto loop = std::make_shared<SharedLoop>(count, num_parts, body);
  const int64_t num_helpers = std::min<int64_t>(num_parts, num_threads()) - 1;
  for (int64_t i = 0; i < num_helpers; ++i) {
    threads_.workers->Schedule([loop] { loop->RunParts(); });
  }
  loop->RunParts();
  loop->Await();
}

int PlaceOfInput(tf::OpKernelContext* ctx, const char* name, int item) {
  int begin = 0, end = 0;
  ThrowIfError(ctx->op_kernel().InputRange(name, &begin, &end));
  return begin + item;
}

int PlaceOfOutput(tf::OpKernelContext* ctx, const char* name, int item) {
  int begin = 0, end = 0;
  ThrowIfError(ctx->op_kernel().OutputRange(name, &begin, &end));
  return begin + item;
}

const tf::Tensor& Input(tf::OpKernelContext* ctx, const char* name, int item) {
  return ctx->input(PlaceOfInput(ctx, name, item));
}

const tf::Tensor& InputOfRank(tf::OpKernelContext* ctx, const char* name, int rank, int item) {
  const tf::Tensor& tensor = Input(ctx, name, item);
  if (tensor.dims() != rank) {
    Throw(ErrorCode::kInvalidArgument, ctx->op_kernel().name(), ": ", name, " must have ", rank,
          " dimensions, got shape ", tensor.shape().DebugString());
  }
  return tensor;
}

const tf::ResourceHandle& HandleIn(tf::OpKernelContext* ctx, const char* name, int item) {
  return tf::HandleFromInput(ctx, PlaceOfInput(ctx, name, item));
}

tf::Tensor& Output(tf::OpKernelContext* ctx, const char* name, const tf::TensorShape& shape,
                   int item) {
  tf::Tensor* tensor = nullptr;
  ThrowIfError(ctx->allocate_output(PlaceOfOutput(ctx, name, item), shape, &tensor));
  return *tensor;
}

void SetOutput(tf::OpKernelContext* ctx, const char* name, const tf::Tensor& tensor, int item) {
  ctx->set_output(PlaceOfOutput(ctx, name, item), tensor);
}

}  // namespace sok
