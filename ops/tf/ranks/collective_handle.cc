// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/ranks/collective_handle.h"

#include <utility>
#include <vector>

#include "ops/tf/base/border.h"
#include "ops/tf/base/engine_of_op.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/shared_variant.h"
#include "ops/tf/steps/session_steps.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/variant_op_registry.h"

/// In the definition of an op that begins a collective.
#define SOK_COLLECTIVE_ATTRIBUTES        \
  .Attr("lookup: string")                \
      .Attr("description: string = ''")  \
      .Attr("tables: list(string) = []") \
      .Attr("graph: int = -1")           \
      .Attr("is_eager: bool = false")    \
      .Output("collective: variant")     \
      .SetIsStateful()                   \
      .SetShapeFn(tf::shape_inference::ScalarShape)

namespace sok {

using CollectiveVariant = SharedVariant<const CollectiveHandle>;

namespace {

/// Whether ranks match by the order of calls: in functions and eager code. TensorFlow gives steps
/// of sessions ids above zero; calls of functions, as which it also runs eager ops, have ids below
/// zero or none.
bool IsOrdered(tf::OpKernelContext* ctx) { return ctx->step_id() <= 0; }

/// The gradient of a variant that has none, which tapes ask for: an empty one.
absl::Status NoCollective(tf::OpKernelContext*, const CollectiveVariant&, CollectiveVariant* none) {
  *none = {};
  return absl::OkStatus();
}
absl::Status NoSum(tf::OpKernelContext*, const CollectiveVariant&, const CollectiveVariant&,
                   CollectiveVariant* none) {
  *none = {};
  return absl::OkStatus();
}

REGISTER_OP("SokBeginCollective")
SOK_COLLECTIVE_ATTRIBUTES.Doc(
    "Begins a lookup that other ranks take part in; its exchanges carry the collective. "
    "Ranks match by the name `lookup`: in functions and eager code by the order of calls, in "
    "a session's graph by its count. `graph` distinguishes the graphs of a process, and the "
    "sessions of a graph have counts of their own; both unless it is -1. "
    "TensorFlow runs ops of eager code as functions: with `is_eager`, the op is not part of "
    "one, and each lookup is a call of its own. The lines of `description` must be the same "
    "on all ranks, and in a session how often each of `tables` was initialized again.");

REGISTER_OP("SokBeginPrefetchedCollective")
    .Input("start: int64") SOK_COLLECTIVE_ATTRIBUTES.Doc(
        "As SokBeginCollective, for a prefetching thread. Counts restart with each `start` of "
        "the thread, since it may have ended after different numbers of batches on different "
        "ranks.");

class BeginCollective {
 public:
  explicit BeginCollective(tf::OpKernelConstruction* ctx)
      : lookup_(Attribute<std::string>(ctx, "lookup")),
        description_(std::make_shared<Description>(Attribute<std::string>(ctx, "description"))),
        tables_(Attribute<std::vector<std::string>>(ctx, "tables")),
        is_eager_(Attribute<bool>(ctx, "is_eager")),
        graph_(Attribute<int64_t>(ctx, "graph")) {}

  void operator()(tf::OpKernelContext* ctx) const {
    std::shared_ptr<Coordinator> coordinator = CurrentCoordinator();
    if (!coordinator) {
      Throw(ErrorCode::kFailedPrecondition, ctx->op_kernel().name(),
            ": this process is not connected to the other ranks; create the table in this process");
    }
    LookupCall call;
    call.is_ordered = IsOrdered(ctx);
    call.lookup.name = lookup_;
    if (!call.is_ordered && graph_ >= 0) {
      call.lookup.graph = graph_;
      call.lookup.session = SessionSteps::Of(ctx)->NumberAmongSessionsOf(graph_);
    }
    if (ctx->num_inputs() > 0) call.lookup.start = Input(ctx, "start").scalar<int64_t>()();
    if (!is_eager_) call.step_id = StepIdOf(ctx);
    call.description = call.is_ordered ? description_ : DescriptionInSession(ctx);
    Collective collective = coordinator->Begin(call);
    OutputShared(
        ctx, "collective",
        std::make_shared<const CollectiveHandle>(std::move(coordinator), std::move(collective)));
  }

 private:
  std::shared_ptr<const Description> DescriptionInSession(tf::OpKernelContext* ctx) const {
    if (tables_.empty()) return description_;
    const std::string again = SessionSteps::Of(ctx)->InitializedAgain(tables_);
    return again.empty() ? description_ : std::make_shared<Description>(description_->text + again);
  }

  const std::string lookup_;
  const std::shared_ptr<const Description> description_;
  const std::vector<std::string> tables_;
  const bool is_eager_;
  const int64_t graph_;
};

const RegisteredKernel kCollectiveHandleKernels[] = {
    {"SokBeginCollective", Make<StepKernelOf<BeginCollective>>, {"collective"}},
    {"SokBeginPrefetchedCollective", Make<StepKernelOf<BeginCollective>>, {"start", "collective"}},
};

}  // namespace

CollectiveHandle::CollectiveHandle(std::shared_ptr<Coordinator> coordinator, Collective collective)
    : coordinator_(std::move(coordinator)), collective_(std::move(collective)) {}

CollectiveHandle::~CollectiveHandle() {
  // A child of fork() has another coordinator, or none: the parent's lock may be held for ever.
  if (CurrentCoordinator() == coordinator_) coordinator_->End(collective_);
}

std::shared_ptr<const CollectiveHandle> CollectiveHandleIn(const tf::Tensor& tensor) {
  if (auto handle = SharedIn<const CollectiveHandle>(tensor)) return handle;
  Throw(ErrorCode::kInvalidArgument,
        "input `collective` must be the output of SokBeginCollective, got ", tensor.DebugString());
}

std::shared_ptr<const CollectiveHandle> OptionalCollective(tf::OpKernelContext* ctx) {
  tf::OpInputList collectives;
  ThrowIfError(ctx->input_list("collectives", &collectives));
  return collectives.size() == 0 ? nullptr : CollectiveHandleIn(collectives[0]);
}

CancelWatch::CancelWatch(tf::OpKernelContext* ctx,
                         const std::shared_ptr<const CollectiveHandle>& handle)
    : manager_(handle ? ctx->cancellation_manager() : nullptr) {
  if (manager_ == nullptr) return;
  token_ = manager_->get_cancellation_token();
  const auto fail = [handle, step_id = StepIdOf(ctx)] {
    const std::string message = "the step was cancelled, or another op of it failed";
    if (step_id) handle->coordinator().FailStep(step_id, ErrorCode::kCancelled, message);
    handle->coordinator().FailLookup(handle->collective(), ErrorCode::kCancelled, message);
  };
  if (!manager_->RegisterCallback(token_, fail)) fail();
}

void CancelWatch::Stop() {
  if (manager_ != nullptr) manager_->DeregisterCallback(token_);
  manager_ = nullptr;
}

}  // namespace sok

namespace tensorflow {  // the macros use its names

REGISTER_UNARY_VARIANT_UNARY_OP_FUNCTION(ZEROS_LIKE_VARIANT_UNARY_OP, DEVICE_CPU,
                                         sok::CollectiveVariant, sok::NoCollective);
REGISTER_UNARY_VARIANT_BINARY_OP_FUNCTION(ADD_VARIANT_BINARY_OP, DEVICE_CPU, sok::CollectiveVariant,
                                          sok::NoSum);

}  // namespace tensorflow
