// SPDX-License-Identifier: Apache-2.0
// Ops of batches that are made while the step before runs: those of the thread that makes them, and
// those of the steps that take them.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/tf/ahead_batches.h"
#include "ops/tf/border.h"
#include "ops/tf/engine_of_op.h"
#include "ops/tf/shared_variant.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {

namespace tf = tensorflow;

namespace {

REGISTER_OP("SokAheadStart")
    .Attr("batches: string")
    .Attr("capacity: int = 1")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("From now on there is a thread that makes batches, `capacity` more than are taken.");

REGISTER_OP("SokAheadClose")
    .Attr("batches: string")
    .Attr("capacity: int = 1")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("There is no such thread any more: what it does is cancelled, steps get what is there.");

REGISTER_OP("SokAheadBegin")
    .Attr("batches: string")
    .Attr("capacity: int = 1")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("Begins a batch, once a step has asked for one and there is room.");

REGISTER_OP("SokAheadPut")
    .Input("tensors: T")
    .Attr("T: list(type) >= 1")
    .Attr("slot: int")
    .Attr("batches: string")
    .Attr("capacity: int = 1")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("Puts tensors into a slot of the batch that has begun.");

REGISTER_OP("SokAheadAll")
    .Input("num_slots: int64")
    .Attr("batches: string")
    .Attr("capacity: int = 1")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Ends when so many slots of the batch are filled; fails when the batches are closed first, "
        "and so cancels what fills them.");

REGISTER_OP("SokAheadFail")
    .Input("code: int32")
    .Input("message: string")
    .Attr("batches: string")
    .Attr("capacity: int = 1")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("The batch that has begun fails, and with it the step that takes it.");

REGISTER_OP("SokAheadNext")
    .Output("batch: variant")
    .Attr("batches: string")
    .Attr("capacity: int = 1")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc("The batch of a step, as soon as it has begun.");

REGISTER_OP("SokAheadTake")
    .Input("batch: variant")
    .Output("tensors: T")
    .Attr("T: list(type) >= 1")
    .Attr("slot: int")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::UnknownShape)
    .Doc("What has been put into a slot of the batch, or why it could not be made.");

/// The batches of the op's session and name.
std::shared_ptr<AheadBatches> BatchesOf(tf::OpKernelContext* ctx, const std::string& name,
                                        int64_t capacity) {
  AheadBatches* batches = nullptr;
  ThrowIfError(ctx->resource_manager()->LookupOrCreate<AheadBatches>(
      "sok_ahead", name, &batches, [capacity](AheadBatches** made) {
        *made = new AheadBatches(capacity);
        return absl::OkStatus();
      }));
  return {batches, [](AheadBatches* held) { held->Unref(); }};
}

std::shared_ptr<AheadBatch> BatchThatHasBegun(AheadBatches& batches) {
  std::shared_ptr<AheadBatch> batch = batches.current();
  if (!batch) Throw(ErrorCode::kFailedPrecondition, "no batch has begun");
  return batch;
}

/// An op on the batches of its attributes.
class BatchesOp {
 public:
  explicit BatchesOp(tf::OpKernelConstruction* ctx) {
    FailOpOnThrow(ctx, [&] {
      name_ = Attribute<std::string>(ctx, "batches");
      capacity_ = Attribute<int64_t>(ctx, "capacity");
    });
  }

 protected:
  std::shared_ptr<AheadBatches> Batches(tf::OpKernelContext* ctx) const {
    return BatchesOf(ctx, name_, capacity_);
  }

 private:
  std::string name_;
  int64_t capacity_ = 1;
};

/// One that ends at once.
class PromptOp : public tf::OpKernel, protected BatchesOp {
 public:
  explicit PromptOp(tf::OpKernelConstruction* ctx) : tf::OpKernel(ctx), BatchesOp(ctx) {}
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] { Do(ctx, *Batches(ctx)); });
  }

 protected:
  virtual void Do(tf::OpKernelContext* ctx, AheadBatches& batches) = 0;
};

class AheadStartOp : public PromptOp {
  using PromptOp::PromptOp;
  void Do(tf::OpKernelContext*, AheadBatches& batches) override { batches.Start(); }
};

class AheadCloseOp : public PromptOp {
  using PromptOp::PromptOp;
  void Do(tf::OpKernelContext*, AheadBatches& batches) override { batches.Close(); }
};

class AheadPutOp : public PromptOp {
 public:
  explicit AheadPutOp(tf::OpKernelConstruction* ctx) : PromptOp(ctx) {
    FailOpOnThrow(ctx, [&] { slot_ = Attribute<int64_t>(ctx, "slot"); });
  }

 private:
  void Do(tf::OpKernelContext* ctx, AheadBatches& batches) override {
    std::vector<tf::Tensor> tensors;
    for (int i = 0; i < ctx->num_inputs(); ++i) tensors.push_back(ctx->input(i));
    BatchThatHasBegun(batches)->Put(slot_, std::move(tensors));
  }

  int64_t slot_ = 0;
};

class AheadFailOp : public PromptOp {
  using PromptOp::PromptOp;
  void Do(tf::OpKernelContext* ctx, AheadBatches& batches) override {
    const auto code = static_cast<absl::StatusCode>(ctx->input(0).scalar<int32_t>()());
    BatchThatHasBegun(batches)->Fail(
        absl::Status(code, std::string(ctx->input(1).scalar<tf::tstring>()())));
  }
};

/// One that waits for others without holding a thread.
class WaitingOp : public tf::AsyncOpKernel {
 public:
  using tf::AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(tf::OpKernelContext* ctx, DoneCallback done) override {
    const auto end = [this, ctx, done](const absl::Status& status,
                                       std::shared_ptr<AheadBatch> batch) {
      ctx->SetStatus(status);  // as it is: the core has no end of data
      if (status.ok()) FailOpOnThrow(ctx, [&] { End(ctx, std::move(batch)); });
      done();
    };
    Join join;
    FailOpOnThrow(ctx, [&] { join = Prepare(ctx); });
    if (!ctx->status().ok()) return done();
    // `ctx` may be gone from Make on.
    join(AheadWaiter::Make(ctx->cancellation_manager(), MadeAheadNoMore(), end));
  }

 protected:
  /// Makes somebody wait.
  using Join = std::function<void(std::shared_ptr<AheadWaiter>)>;
  virtual Join Prepare(tf::OpKernelContext* ctx) = 0;
  virtual void End(tf::OpKernelContext*, std::shared_ptr<AheadBatch>) {}
};

class AheadBeginOp : public WaitingOp, BatchesOp {
 public:
  explicit AheadBeginOp(tf::OpKernelConstruction* ctx) : WaitingOp(ctx), BatchesOp(ctx) {}

 private:
  Join Prepare(tf::OpKernelContext* ctx) override {
    return [batches = Batches(ctx)](std::shared_ptr<AheadWaiter> waiter) {
      batches->Begin(std::move(waiter));
    };
  }
};

class AheadAllOp : public WaitingOp, BatchesOp {
 public:
  explicit AheadAllOp(tf::OpKernelConstruction* ctx) : WaitingOp(ctx), BatchesOp(ctx) {}

 private:
  Join Prepare(tf::OpKernelContext* ctx) override {
    const int64_t num_slots = ctx->input(0).scalar<int64_t>()();
    return [num_slots, batch = BatchThatHasBegun(*Batches(ctx))](auto waiter) {
      batch->WaitForAll(num_slots, std::move(waiter));
    };
  }
};

class AheadNextOp : public WaitingOp, BatchesOp {
 public:
  explicit AheadNextOp(tf::OpKernelConstruction* ctx) : WaitingOp(ctx), BatchesOp(ctx) {}

 private:
  Join Prepare(tf::OpKernelContext* ctx) override {
    return [batches = Batches(ctx)](std::shared_ptr<AheadWaiter> waiter) {
      batches->Next(std::move(waiter));
    };
  }
  void End(tf::OpKernelContext* ctx, std::shared_ptr<AheadBatch> batch) override {
    OutputShared(ctx, 0, std::move(batch));
  }
};

class AheadTakeOp : public WaitingOp {
 public:
  explicit AheadTakeOp(tf::OpKernelConstruction* ctx) : WaitingOp(ctx) {
    FailOpOnThrow(ctx, [&] { slot_ = Attribute<int64_t>(ctx, "slot"); });
  }

 private:
  Join Prepare(tf::OpKernelContext* ctx) override {
    const auto batch = SharedIn<AheadBatch>(ctx->input(0));
    if (!batch) Throw(ErrorCode::kInvalidArgument, name(), ": no batch");
    return [slot = slot_, batch](std::shared_ptr<AheadWaiter> waiter) {
      batch->WaitForSlot(slot, std::move(waiter));
    };
  }
  void End(tf::OpKernelContext* ctx, std::shared_ptr<AheadBatch> batch) override {
    const std::vector<tf::Tensor> tensors = batch->tensors(slot_);
    for (size_t i = 0; i < tensors.size(); ++i) ctx->set_output(static_cast<int>(i), tensors[i]);
  }

  int64_t slot_ = 0;
};

// What waits ahead stands in the host's memory.
SOK_REGISTER_KERNEL(Name("SokAheadStart"), AheadStartOp);
SOK_REGISTER_KERNEL(Name("SokAheadClose"), AheadCloseOp);
SOK_REGISTER_KERNEL(Name("SokAheadBegin"), AheadBeginOp);
SOK_REGISTER_KERNEL(Name("SokAheadPut").HostMemory("tensors"), AheadPutOp);
SOK_REGISTER_KERNEL(Name("SokAheadAll").HostMemory("num_slots"), AheadAllOp);
SOK_REGISTER_KERNEL(Name("SokAheadFail").HostMemory("code").HostMemory("message"), AheadFailOp);
SOK_REGISTER_KERNEL(Name("SokAheadNext").HostMemory("batch"), AheadNextOp);
SOK_REGISTER_KERNEL(Name("SokAheadTake").HostMemory("batch").HostMemory("tensors"), AheadTakeOp);

}  // namespace
}  // namespace sok
