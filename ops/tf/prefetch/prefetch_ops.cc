// SPDX-License-Identifier: Apache-2.0
// Ops for batches that are made while the previous step runs: for the thread that makes them, and
// for the steps that take them.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/tf/base/border.h"
#include "ops/tf/base/engine_of_op.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/shared_variant.h"
#include "ops/tf/prefetch/prefetched_batches.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {

namespace tf = tensorflow;

namespace {

REGISTER_OP("SokPrefetchStart")
    .Attr("batches: string")
    .Attr("capacity: int = 1")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Announces that a thread makes batches from now on, up to `capacity` more than steps "
        "have taken.");

REGISTER_OP("SokPrefetchClose")
    .Attr("batches: string")
    .Attr("capacity: int = 1")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Announces that this thread has ended: its work is cancelled, and steps get the batches "
        "made so far.");

REGISTER_OP("SokPrefetchBegin")
    .Attr("batches: string")
    .Attr("capacity: int = 1")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("Begins a batch once a step has requested one and fewer than `capacity` are waiting.");

REGISTER_OP("SokPrefetchPut")
    .Input("tensors: T")
    .Attr("T: list(type) >= 1")
    .Attr("slot: int")
    .Attr("batches: string")
    .Attr("capacity: int = 1")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("Stores tensors in a slot of the current batch.");

REGISTER_OP("SokPrefetchAll")
    .Input("num_slots: int64")
    .Attr("batches: string")
    .Attr("capacity: int = 1")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Ends when num_slots slots of the batch are filled; fails if the batches are closed "
        "before, which cancels the ops that fill them.");

REGISTER_OP("SokPrefetchFail")
    .Input("code: int32")
    .Input("message: string")
    .Attr("batches: string")
    .Attr("capacity: int = 1")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("Fails the current batch, and with it the step that takes it.");

REGISTER_OP("SokPrefetchNext")
    .Output("batch: variant")
    .Attr("batches: string")
    .Attr("capacity: int = 1")
    .SetIsStateful()
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

/// The batches of the op's session and name.
std::shared_ptr<PrefetchedBatches> BatchesOf(tf::OpKernelContext* ctx, const std::string& name,
                                             int64_t capacity) {
  PrefetchedBatches* batches = nullptr;
  ThrowIfError(ctx->resource_manager()->LookupOrCreate<PrefetchedBatches>(
      "sok_prefetch", name, &batches, [capacity](PrefetchedBatches** made) {
        *made = new PrefetchedBatches(capacity);
        return absl::OkStatus();
      }));
  return {batches, [](PrefetchedBatches* held) { held->Unref(); }};
}

std::shared_ptr<PrefetchedBatch> BatchThatHasBegun(PrefetchedBatches& batches) {
  std::shared_ptr<PrefetchedBatch> batch = batches.current();
  if (!batch) Throw(ErrorCode::kFailedPrecondition, "no batch has begun");
  return batch;
}

/// Base class of ops on the batches named by their attributes.
class BatchesOp {
 public:
  explicit BatchesOp(tf::OpKernelConstruction* ctx) {
    FailOpOnThrow(ctx, [&] {
      name_ = Attribute<std::string>(ctx, "batches");
      capacity_ = Attribute<int64_t>(ctx, "capacity");
    });
  }

 protected:
  std::shared_ptr<PrefetchedBatches> Batches(tf::OpKernelContext* ctx) const {
    return BatchesOf(ctx, name_, capacity_);
  }

 private:
  std::string name_;
  int64_t capacity_ = 1;
};

/// An op that does not wait.
class PromptOp : public tf::OpKernel, protected BatchesOp {
 public:
  explicit PromptOp(tf::OpKernelConstruction* ctx) : tf::OpKernel(ctx), BatchesOp(ctx) {}
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] { Do(ctx, *Batches(ctx)); });
  }

 protected:
  virtual void Do(tf::OpKernelContext* ctx, PrefetchedBatches& batches) = 0;
};

class PrefetchStartOp : public PromptOp {
  using PromptOp::PromptOp;
  void Do(tf::OpKernelContext*, PrefetchedBatches& batches) override { batches.Start(); }
};

class PrefetchCloseOp : public PromptOp {
  using PromptOp::PromptOp;
  void Do(tf::OpKernelContext*, PrefetchedBatches& batches) override { batches.Close(); }
};

class PrefetchPutOp : public PromptOp {
 public:
  explicit PrefetchPutOp(tf::OpKernelConstruction* ctx) : PromptOp(ctx) {
    FailOpOnThrow(ctx, [&] { slot_ = Attribute<int64_t>(ctx, "slot"); });
  }

 private:
  void Do(tf::OpKernelContext* ctx, PrefetchedBatches& batches) override {
    std::vector<tf::Tensor> tensors;
    for (int i = 0; i < ctx->num_inputs(); ++i) tensors.push_back(Input(ctx, "tensors", i));
    BatchThatHasBegun(batches)->Put(slot_, std::move(tensors));
  }

  int64_t slot_ = 0;
};

class PrefetchFailOp : public PromptOp {
  using PromptOp::PromptOp;
  void Do(tf::OpKernelContext* ctx, PrefetchedBatches& batches) override {
    const auto code = static_cast<absl::StatusCode>(Input(ctx, "code").scalar<int32_t>()());
    BatchThatHasBegun(batches)->Fail(
        absl::Status(code, std::string(Input(ctx, "message").scalar<tf::tstring>()())));
  }
};

/// An op that waits without blocking a thread.
class WaitingOp : public tf::AsyncOpKernel {
 public:
  using tf::AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(tf::OpKernelContext* ctx, DoneCallback done) override {
    const auto end = [this, ctx, done](const absl::Status& status,
                                       std::shared_ptr<PrefetchedBatch> batch) {
      ctx->SetStatus(status);  // untranslated: the core has no error for the end of data
      if (status.ok()) FailOpOnThrow(ctx, [&] { End(ctx, std::move(batch)); });
      done();
    };
    Join join;
    FailOpOnThrow(ctx, [&] { join = Prepare(ctx); });
    if (!ctx->status().ok()) return done();
    // `ctx` may be destroyed after Make.
    join(PrefetchWaiter::Make(ctx->cancellation_manager(), PrefetchEnded(), end));
  }

 protected:
  /// Enqueues a waiter.
  using Join = std::function<void(std::shared_ptr<PrefetchWaiter>)>;
  virtual Join Prepare(tf::OpKernelContext* ctx) = 0;
  virtual void End(tf::OpKernelContext*, std::shared_ptr<PrefetchedBatch>) {}
};

class PrefetchBeginOp : public WaitingOp, BatchesOp {
 public:
  explicit PrefetchBeginOp(tf::OpKernelConstruction* ctx) : WaitingOp(ctx), BatchesOp(ctx) {}

 private:
  Join Prepare(tf::OpKernelContext* ctx) override {
    return [batches = Batches(ctx)](std::shared_ptr<PrefetchWaiter> waiter) {
      batches->Begin(std::move(waiter));
    };
  }
};

class PrefetchAllOp : public WaitingOp, BatchesOp {
 public:
  explicit PrefetchAllOp(tf::OpKernelConstruction* ctx) : WaitingOp(ctx), BatchesOp(ctx) {}

 private:
  Join Prepare(tf::OpKernelContext* ctx) override {
    const int64_t num_slots = Input(ctx, "num_slots").scalar<int64_t>()();
    return [num_slots, batch = BatchThatHasBegun(*Batches(ctx))](auto waiter) {
      batch->WaitForAll(num_slots, std::move(waiter));
    };
  }
};

class PrefetchNextOp : public WaitingOp, BatchesOp {
 public:
  explicit PrefetchNextOp(tf::OpKernelConstruction* ctx) : WaitingOp(ctx), BatchesOp(ctx) {}

 private:
  Join Prepare(tf::OpKernelContext* ctx) override {
    return [batches = Batches(ctx)](std::shared_ptr<PrefetchWaiter> waiter) {
      batches->Next(std::move(waiter));
    };
  }
  void End(tf::OpKernelContext* ctx, std::shared_ptr<PrefetchedBatch> batch) override {
    OutputShared(ctx, "batch", std::move(batch));
  }
};

class PrefetchTakeOp : public WaitingOp {
 public:
  explicit PrefetchTakeOp(tf::OpKernelConstruction* ctx) : WaitingOp(ctx) {
    FailOpOnThrow(ctx, [&] { slot_ = Attribute<int64_t>(ctx, "slot"); });
  }

 private:
  Join Prepare(tf::OpKernelContext* ctx) override {
    const auto batch = SharedIn<PrefetchedBatch>(Input(ctx, "batch"));
    if (!batch)
      Throw(ErrorCode::kInvalidArgument, name(),
            ": input `batch` must be the output of SokPrefetchNext");
    return [slot = slot_, batch](std::shared_ptr<PrefetchWaiter> waiter) {
      batch->WaitForSlot(slot, std::move(waiter));
    };
  }
  void End(tf::OpKernelContext* ctx, std::shared_ptr<PrefetchedBatch> batch) override {
    const std::vector<tf::Tensor> tensors = batch->tensors(slot_);
    for (size_t i = 0; i < tensors.size(); ++i)
      SetOutput(ctx, "tensors", tensors[i], static_cast<int>(i));
  }

  int64_t slot_ = 0;
};

// Prefetched batches are in the host's memory.
const RegisteredKernel kPrefetchKernels[] = {
    {"SokPrefetchStart", Make<PrefetchStartOp>, {}},
    {"SokPrefetchClose", Make<PrefetchCloseOp>, {}},
    {"SokPrefetchBegin", Make<PrefetchBeginOp>, {}},
    {"SokPrefetchPut", Make<PrefetchPutOp>, {"tensors"}},
    {"SokPrefetchAll", Make<PrefetchAllOp>, {"num_slots"}},
    {"SokPrefetchFail", Make<PrefetchFailOp>, {"code", "message"}},
    {"SokPrefetchNext", Make<PrefetchNextOp>, {"batch"}},
    {"SokPrefetchTake", Make<PrefetchTakeOp>, {"batch", "tensors"}},
};

}  // namespace
}  // namespace sok
