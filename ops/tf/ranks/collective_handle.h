// SPDX-License-Identifier: Apache-2.0
// Collectives of lookups as tensors: shared by all exchanges of a lookup, from the forward to the
// backward pass, which are separate calls in eager code and functions.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <system_error>

#include "ops/exchange/payload/same_requests.h"
#include "ops/exchange/rendezvous/coordinator.h"
#include "ops/tf/base/step_failure.h"
#include "ops/tf/ranks/exchange_service.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sok {

/// A collective that ends with its last owner: then no op can request an exchange any more.
class CollectiveHandle {
 public:
  CollectiveHandle(std::shared_ptr<Coordinator> coordinator, Collective collective);
  ~CollectiveHandle();
  CollectiveHandle(const CollectiveHandle&) = delete;
  CollectiveHandle& operator=(const CollectiveHandle&) = delete;

  Coordinator& coordinator() const { return *coordinator_; }
  const std::shared_ptr<Coordinator>& shared_coordinator() const { return coordinator_; }
  const Collective& collective() const { return collective_; }
  /// The ranks that request the same as rank 0, for the op of the gradients.
  RankBits alike() const { return alike_; }
  void NoteAlike(RankBits alike) const { alike_ = alike; }

 private:
  const std::shared_ptr<Coordinator> coordinator_;
  const Collective collective_;
  mutable std::atomic<RankBits> alike_{0};
};

/// The collective in a scalar variant tensor.
std::shared_ptr<const CollectiveHandle> CollectiveHandleIn(const tf::Tensor& tensor);

/// The collective in an op's input list `collectives`; null if the list is empty.
std::shared_ptr<const CollectiveHandle> OptionalCollective(tf::OpKernelContext* ctx);

/// While it lives, no rank keeps waiting for the lookup after another op of the step has failed or
/// the step was cancelled.
class CancelWatch {
 public:
  CancelWatch(tf::OpKernelContext* ctx, const std::shared_ptr<const CollectiveHandle>& handle);
  ~CancelWatch() { Stop(); }
  CancelWatch(const CancelWatch&) = delete;
  CancelWatch& operator=(const CancelWatch&) = delete;

  void Stop();

 private:
  tf::CancellationManager* manager_;  // null: nothing to watch
  tf::CancellationToken token_ = tf::CancellationManager::kInvalidToken;
};

/// As FailStepOnThrow; the failing op is part of the lookup of `handle`, if any. Catches all:
/// an exception would end the thread of the exchanges.
template <typename Body>
void FailLookupOnThrow(tf::OpKernelContext* ctx, const CollectiveHandle* handle, Body&& body) {
  FailStepOnThrow(ctx, [&] {
    try {
      body();
    } catch (const Error&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::system_error& error) {
      Throw(ErrorCode::kOutOfMemory, ctx->op_kernel().name(),
            ": no thread could be started: ", error.what());
    } catch (const std::exception& error) {
      Throw(ErrorCode::kInvalidArgument, ctx->op_kernel().name(), ": ", error.what());
    }
  });
  if (handle && !ctx->status().ok()) {
    handle->coordinator().FailLookup(handle->collective(), CodeOf(ctx->status()),
                                     std::string(ctx->status().message()));
  }
}

}  // namespace sok
