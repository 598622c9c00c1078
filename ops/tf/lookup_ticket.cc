// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/lookup_ticket.h"

#include <utility>

#include "ops/tf/border.h"
#include "ops/tf/engine_of_op.h"
#include "ops/tf/exchange_service.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/framework/variant_encode_decode.h"
#include "tensorflow/core/framework/variant_op_registry.h"
#include "tensorflow/core/framework/variant_tensor_data.h"

namespace sok {

namespace tf = tensorflow;

/// What stands in the tensor. It never leaves the process.
struct TicketVariant {
  std::shared_ptr<const HeldTicket> held;

  static constexpr char kTypeName[] = "sok::TicketVariant";
  std::string TypeName() const { return kTypeName; }
  void Encode(tf::VariantTensorData* data) const { data->set_type_name(kTypeName); }
  bool Decode(const tf::VariantTensorData&) { return false; }
};

namespace {

/// What tapes ask of a variant that has no gradient: a gradient that says nothing.
absl::Status NoTicket(tf::OpKernelContext*, const TicketVariant&, TicketVariant* none) {
  *none = {};
  return absl::OkStatus();
}
absl::Status NoSum(tf::OpKernelContext*, const TicketVariant&, const TicketVariant&,
                   TicketVariant* none) {
  *none = {};
  return absl::OkStatus();
}

REGISTER_OP("SokBeginLookup")
    .Attr("lookup: string")
    .Attr("graph: int = 0")
    .Attr("is_eager: bool = false")
    .Output("ticket: variant")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc(
        "Begins a lookup that other ranks take part in; its exchanges carry the ticket. Ranks meet "
        "in functions and eager code by the order of calls, with `lookup` as the name; in a "
        "session's graph by the op's name, where `graph` tells the graphs of a process apart. "
        "TensorFlow runs ops of eager code as functions: `is_eager` says that it is none, and each "
        "lookup a call of its own.");

class BeginLookupOp : public tf::OpKernel {
 public:
  explicit BeginLookupOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        lookup_(Attribute<std::string>(ctx, "lookup")),
        is_eager_(Attribute<bool>(ctx, "is_eager")),
        name_in_graph_(name()) {
    const auto graph = Attribute<int64_t>(ctx, "graph");
    if (graph > 0) name_in_graph_ += " of graph " + std::to_string(graph);
  }

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      auto held = HeldTicket::Begin(ctx, IsOrdered(ctx) ? lookup_ : name_in_graph_, is_eager_);
      Output(ctx, 0, {}).scalar<tf::Variant>()() = TicketVariant{std::move(held)};
    });
  }

 private:
  const std::string lookup_;
  const bool is_eager_;
  std::string name_in_graph_;
};

SOK_REGISTER_KERNEL(Name("SokBeginLookup").HostMemory("ticket"), BeginLookupOp);

}  // namespace

std::shared_ptr<const HeldTicket> HeldTicket::Begin(tf::OpKernelContext* ctx,
                                                    const std::string& lookup, bool is_eager) {
  std::shared_ptr<Coordinator> coordinator = CurrentCoordinator();
  if (!coordinator) {
    Throw(ErrorCode::kFailedPrecondition, ctx->op_kernel().name(),
          ": this process has not been connected to the other ranks; make the table in it");
  }
  const StepId step_id = is_eager ? StepId() : StepIdOf(ctx);
  Ticket ticket = coordinator->Begin({lookup, step_id, IsOrdered(ctx)});
  return std::make_shared<const HeldTicket>(std::move(coordinator), std::move(ticket));
}

HeldTicket::HeldTicket(std::shared_ptr<Coordinator> coordinator, Ticket ticket)
    : coordinator_(std::move(coordinator)), ticket_(std::move(ticket)) {}

HeldTicket::~HeldTicket() {
  // A child of fork() has another one, or none: the lock of its parent's may be held for ever.
  if (CurrentCoordinator() == coordinator_) coordinator_->End(ticket_);
}

std::shared_ptr<const HeldTicket> TicketIn(const tf::Tensor& tensor) {
  const TicketVariant* ticket = nullptr;
  if (tensor.dims() == 0) ticket = tensor.scalar<tf::Variant>()().get<TicketVariant>();
  if (!ticket || !ticket->held)
    Throw(ErrorCode::kInvalidArgument, "expected the ticket of a lookup, got ",
          tensor.DebugString());
  return ticket->held;
}

}  // namespace sok

namespace tensorflow {  // the macros name what is in it

REGISTER_UNARY_VARIANT_UNARY_OP_FUNCTION(ZEROS_LIKE_VARIANT_UNARY_OP, DEVICE_CPU,
                                         sok::TicketVariant, sok::NoTicket);
REGISTER_UNARY_VARIANT_BINARY_OP_FUNCTION(ADD_VARIANT_BINARY_OP, DEVICE_CPU, sok::TicketVariant,
                                          sok::NoSum);

}  // namespace tensorflow
