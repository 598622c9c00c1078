// SPDX-License-Identifier: Apache-2.0
// Ops for batches that are made while the previous step runs: for the thread that makes them, and
// for the steps that take them.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/tf/base/border.h"
#include "ops/tf/base/engine_of_op.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/shared_variant.h"
#include "ops/tf/prefetch/prefetched_batches.h"
#include "tensorflow/core/framework/common_shape_fns.h"

/// In the definition of an op on the batches of its session with this name.
#define SOK_BATCHES_ATTRIBUTES .Attr("batches: string").Attr("capacity: int = 1")

namespace sok {
namespace {

REGISTER_OP("SokPrefetchStart")
SOK_BATCHES_ATTRIBUTES.SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Announces that a thread makes batches from now on, up to `capacity` more than steps "
        "have taken.");

REGISTER_OP("SokPrefetchClose")
SOK_BATCHES_ATTRIBUTES.SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Announces that this thread has ended: its work is cancelled, and steps get the batches "
        "made so far.");

REGISTER_OP("SokPrefetchBegin")
SOK_BATCHES_ATTRIBUTES.SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("Begins a batch once a step has requested one and fewer than `capacity` are waiting.");

REGISTER_OP("SokPrefetchPut")
    .Input("tensors: T")
    .Attr("T: list(type) >= 1")
    .Attr("slot: int") SOK_BATCHES_ATTRIBUTES.SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("Stores tensors in a slot of the current batch.");

REGISTER_OP("SokPrefetchAll")
    .Input("num_slots: int64") SOK_BATCHES_ATTRIBUTES.SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Ends when num_slots slots of the batch are filled; fails if the batches are closed "
        "before, which cancels the ops that fill them.");

REGISTER_OP("SokPrefetchFail")
    .Input("code: int32")
    .Input("message: string") SOK_BATCHES_ATTRIBUTES.SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("Fails the current batch, and with it the step that takes it.");

REGISTER_OP("SokPrefetchNext")
    .Output("batch: variant") SOK_BATCHES_ATTRIBUTES.SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc("The batch of a step, as soon as it has begun.");

REGISTER_OP("SokPrefetchTake")
    .Input("batch: variant")
    .Output("tensors: T")
    .Attr("T: list(type) >= 1")
    .Attr("slot: int")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::UnknownShape)
    .Doc("The tensors in a slot of the batch; fails if the batch could not be made.");

/// The batches of an op's session and name.
class BatchesOf {
 public:
  explicit BatchesOf(tf::OpKernelConstruction* ctx)
      : name_(Attribute<std::string>(ctx, "batches")),
        capacity_(Attribute<int64_t>(ctx, "capacity")) {}

  std::shared_ptr<PrefetchedBatches> In(tf::OpKernelContext* ctx) const {
    PrefetchedBatches* batches = nullptr;
    ThrowIfError(ctx->resource_manager()->LookupOrCreate<PrefetchedBatches>(
        "sok_prefetch", name_, &batches, [this](PrefetchedBatches** made) {
          *made = new PrefetchedBatches(capacity_);
          return absl::OkStatus();
        }));
    return {batches, [](PrefetchedBatches* owned) { owned->Unref(); }};
  }

  /// The batch in progress.
  std::shared_ptr<PrefetchedBatch> CurrentIn(tf::OpKernelContext* ctx) const {
    std::shared_ptr<PrefetchedBatch> batch = In(ctx)->current();
    if (!batch) Throw(ErrorCode::kFailedPrecondition, "no batch has begun");
    return batch;
  }

 private:
  const std::string name_;
  const int64_t capacity_;
};

template <void (PrefetchedBatches::*kCall)()>
struct CallOnBatches : BatchesOf {
  using BatchesOf::BatchesOf;
  void operator()(tf::OpKernelContext* ctx) const { (In(ctx).get()->*kCall)(); }
};

struct Put : BatchesOf {
  explicit Put(tf::OpKernelConstruction* ctx)
      : BatchesOf(ctx), slot(Attribute<int64_t>(ctx, "slot")) {}
  void operator()(tf::OpKernelContext* ctx) const {
    std::vector<tf::Tensor> tensors;
    for (int i = 0; i < ctx->num_inputs(); ++i) tensors.push_back(Input(ctx, "tensors", i));
    CurrentIn(ctx)->Put(slot, std::move(tensors));
  }

  const int64_t slot;
};

struct Fail : BatchesOf {
  using BatchesOf::BatchesOf;
  void operator()(tf::OpKernelContext* ctx) const {
    const auto code = static_cast<absl::StatusCode>(Input(ctx, "code").scalar<int32_t>()());
    CurrentIn(ctx)->Fail(
        absl::Status(code, std::string(Input(ctx, "message").scalar<tf::tstring>()())));
  }
};

/// Enqueues a waiter.
using Join = std::function<void(std::shared_ptr<PrefetchWaiter>)>;

/// The kernel of an op that waits without blocking a thread, between Prepare and End.
template <typename Op>
class WaitingKernelOf : public tf::AsyncOpKernel {
 public:
  explicit WaitingKernelOf(tf::OpKernelConstruction* ctx) : tf::AsyncOpKernel(ctx) {
    FailOpOnThrow(ctx, [&] { op_.emplace(ctx); });
  }

  void ComputeAsync(tf::OpKernelContext* ctx, DoneCallback done) override {
    const auto end = [this, ctx, done](const absl::Status& status,
                                       std::shared_ptr<PrefetchedBatch> batch) {
      ctx->SetStatus(status);  // untranslated: the core has no error for the end of data
      if (status.ok()) FailOpOnThrow(ctx, [&] { op_->End(ctx, std::move(batch)); });
      done();
    };
    Join join;
    FailOpOnThrow(ctx, [&] { join = op_->Prepare(ctx); });
    if (!ctx->status().ok()) return done();
    // `ctx` may be destroyed after Make.
    join(PrefetchWaiter::Make(ctx->cancellation_manager(), PrefetchEnded(), end));
  }

 private:
  std::optional<const Op> op_;
};

struct Begin : BatchesOf {
  using BatchesOf::BatchesOf;
  Join Prepare(tf::OpKernelContext* ctx) const {
    return [batches = In(ctx)](auto waiter) { batches->Begin(std::move(waiter)); };
  }
  void End(tf::OpKernelContext*, std::shared_ptr<PrefetchedBatch>) const {}
};

struct AwaitAll : BatchesOf {
  using BatchesOf::BatchesOf;
  Join Prepare(tf::OpKernelContext* ctx) const {
    const int64_t num_slots = Input(ctx, "num_slots").scalar<int64_t>()();
    return [num_slots, batch = CurrentIn(ctx)](auto waiter) {
      batch->WaitForAll(num_slots, std::move(waiter));
    };
  }
  void End(tf::OpKernelContext*, std::shared_ptr<PrefetchedBatch>) const {}
};

struct Next : BatchesOf {
  using BatchesOf::BatchesOf;
  Join Prepare(tf::OpKernelContext* ctx) const {
    return [batches = In(ctx)](auto waiter) { batches->Next(std::move(waiter)); };
  }
  void End(tf::OpKernelContext* ctx, std::shared_ptr<PrefetchedBatch> batch) const {
    OutputShared(ctx, "batch", std::move(batch));
  }
};

struct Take {
  explicit Take(tf::OpKernelConstruction* ctx) : slot(Attribute<int64_t>(ctx, "slot")) {}
  Join Prepare(tf::OpKernelContext* ctx) const {
    const auto batch = SharedInput<PrefetchedBatch>(ctx, "batch", "SokPrefetchNext");
    return [slot = slot, batch](auto waiter) { batch->WaitForSlot(slot, std::move(waiter)); };
  }
  void End(tf::OpKernelContext* ctx, std::shared_ptr<PrefetchedBatch> batch) const {
    const std::vector<tf::Tensor> tensors = batch->tensors(slot);
    for (size_t i = 0; i < tensors.size(); ++i)
      SetOutput(ctx, "tensors", tensors[i], static_cast<int>(i));
  }

  const int64_t slot;
};

// Prefetched batches are in the host's memory.
const RegisteredKernel kPrefetchKernels[] = {
    {"SokPrefetchStart", Make<KernelOf<CallOnBatches<&PrefetchedBatches::Start>>>, {}},
    {"SokPrefetchClose", Make<KernelOf<CallOnBatches<&PrefetchedBatches::Close>>>, {}},
    {"SokPrefetchBegin", Make<WaitingKernelOf<Begin>>, {}},
    {"SokPrefetchPut", Make<KernelOf<Put>>, {"tensors"}},
    {"SokPrefetchAll", Make<WaitingKernelOf<AwaitAll>>, {"num_slots"}},
    {"SokPrefetchFail", Make<KernelOf<Fail>>, {"code", "message"}},
    {"SokPrefetchNext", Make<WaitingKernelOf<Next>>, {"batch"}},
    {"SokPrefetchTake", Make<WaitingKernelOf<Take>>, {"batch", "tensors"}},
};

}  // namespace
}  // namespace sok
