// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/lookup_ticket.h"

#include <mutex>
#include <utility>
#include <vector>

#include "ops/tf/border.h"
#include "ops/tf/engine_of_op.h"
#include "ops/tf/shared_variant.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/variant_op_registry.h"

namespace sok {

namespace tf = tensorflow;

using TicketVariant = SharedVariant<const HeldTicket>;

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
    .Attr("description: string = ''")
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
        "lookup a call of its own. A `description`, in lines, must be the same on all ranks.");

REGISTER_OP("SokBeginLookupAhead")
    .Input("start: int64")
    .Attr("lookup: string")
    .Attr("description: string = ''")
    .Attr("graph: int = 0")
    .Attr("is_eager: bool = false")
    .Output("ticket: variant")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc(
        "As SokBeginLookup, of a thread that looks up ahead. Ranks meet anew after each `start` of "
        "it: they may have come ahead by different numbers of batches when it ended.");

REGISTER_OP("SokJoinTickets")
    .Input("tickets: K * variant")
    .Attr("K: int >= 2")
    .Output("ticket: variant")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc(
        "The ticket of lookups whose ops have been joined (ops/tf/joined_lookups.h): they meet "
        "where the first of them does, and ranks compare what all of them are.");

class BeginLookupOp : public tf::OpKernel {
 public:
  explicit BeginLookupOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        lookup_(Attribute<std::string>(ctx, "lookup")),
        description_(std::make_shared<Description>(Attribute<std::string>(ctx, "description"))),
        is_eager_(Attribute<bool>(ctx, "is_eager")),
        name_in_graph_(name()) {
    const auto graph = Attribute<int64_t>(ctx, "graph");
    if (graph > 0) name_in_graph_ += " of graph " + std::to_string(graph);
  }

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      std::shared_ptr<Coordinator> coordinator = CurrentCoordinator();
      if (!coordinator) {
        Throw(ErrorCode::kFailedPrecondition, name(),
              ": this process has not been connected to the other ranks; make the table in it");
      }
      LookupCall call;
      call.lookup = IsOrdered(ctx) ? lookup_ : name_in_graph_;
      if (ctx->num_inputs() > 0)
        call.lookup += " of start " + std::to_string(ctx->input(0).scalar<int64_t>()());
      if (!is_eager_) call.step_id = StepIdOf(ctx);
      call.is_ordered = IsOrdered(ctx);
      call.description = description_;
      Ticket ticket = coordinator->Begin(call);
      OutputShared(ctx, 0,
                   std::make_shared<const HeldTicket>(std::move(coordinator), std::move(ticket)));
    });
  }

 private:
  const std::string lookup_;
  const std::shared_ptr<const Description> description_;
  const bool is_eager_;
  std::string name_in_graph_;
};

class JoinTicketsOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      std::vector<std::shared_ptr<const HeldTicket>> held;
      std::vector<Ticket> tickets;
      for (int i = 0; i < ctx->num_inputs(); ++i) {
        held.push_back(TicketIn(ctx->input(i)));
        tickets.push_back(held.back()->ticket());
      }
      Ticket joined = JoinedTicket(tickets, DescriptionOf(tickets));
      OutputShared(ctx, 0, std::make_shared<const HeldTicket>(std::move(held), std::move(joined)));
    });
  }

 private:
  using Parts = std::vector<std::pair<std::string, std::shared_ptr<const Description>>>;

  /// Which lookups they are, and in what order. In most steps that of the step before.
  std::shared_ptr<const Description> DescriptionOf(const std::vector<Ticket>& tickets) {
    Parts parts;
    for (const Ticket& ticket : tickets) parts.emplace_back(ticket.label, ticket.description);
    std::lock_guard<std::mutex> lock(mutex_);
    if (parts != parts_) {
      std::string text = std::to_string(parts.size()) + " lookups in one step";
      for (const auto& [label, part] : parts)
        text += "\n" + label + ": " + (part ? part->text : "");
      description_ = std::make_shared<const Description>(std::move(text));
      parts_ = std::move(parts);
    }
    return description_;
  }

  std::mutex mutex_;
  Parts parts_;
  std::shared_ptr<const Description> description_;
};

SOK_REGISTER_KERNEL(Name("SokBeginLookup").HostMemory("ticket"), BeginLookupOp);
SOK_REGISTER_KERNEL(Name("SokJoinTickets").HostMemory("tickets").HostMemory("ticket"),
                    JoinTicketsOp);
SOK_REGISTER_KERNEL(Name("SokBeginLookupAhead").HostMemory("start").HostMemory("ticket"),
                    BeginLookupOp);

}  // namespace

HeldTicket::HeldTicket(std::shared_ptr<Coordinator> coordinator, Ticket ticket)
    : coordinator_(std::move(coordinator)), ticket_(std::move(ticket)) {}

HeldTicket::HeldTicket(std::vector<std::shared_ptr<const HeldTicket>> joined, Ticket ticket)
    : coordinator_(joined.front()->shared_coordinator()),
      ticket_(std::move(ticket)),
      joined_(std::move(joined)) {}

HeldTicket::~HeldTicket() {
  if (!joined_.empty()) return;  // these end by themselves
  // A child of fork() has another one, or none: the lock of its parent's may be held for ever.
  if (CurrentCoordinator() == coordinator_) coordinator_->End(ticket_);
}

std::shared_ptr<const HeldTicket> TicketIn(const tf::Tensor& tensor) {
  if (auto held = SharedIn<const HeldTicket>(tensor)) return held;
  Throw(ErrorCode::kInvalidArgument, "expected the ticket of a lookup, got ", tensor.DebugString());
}

CancelWatch::CancelWatch(tf::OpKernelContext* ctx, const std::shared_ptr<const HeldTicket>& held)
    : manager_(held ? ctx->cancellation_manager() : nullptr) {
  if (manager_ == nullptr) return;
  token_ = manager_->get_cancellation_token();
  const auto fail = [held, step_id = StepIdOf(ctx)] {
    const std::string message = "the step was cancelled, or another op of it failed";
    if (step_id) held->coordinator().FailStep(step_id, ErrorCode::kCancelled, message);
    held->coordinator().FailLookup(held->ticket(), ErrorCode::kCancelled, message);
  };
  if (!manager_->RegisterCallback(token_, fail)) fail();
}

void CancelWatch::Stop() {
  if (manager_ != nullptr) manager_->DeregisterCallback(token_);
  manager_ = nullptr;
}

}  // namespace sok

namespace tensorflow {  // the macros name what is in it

REGISTER_UNARY_VARIANT_UNARY_OP_FUNCTION(ZEROS_LIKE_VARIANT_UNARY_OP, DEVICE_CPU,
                                         sok::TicketVariant, sok::NoTicket);
REGISTER_UNARY_VARIANT_BINARY_OP_FUNCTION(ADD_VARIANT_BINARY_OP, DEVICE_CPU, sok::TicketVariant,
                                          sok::NoSum);

}  // namespace tensorflow
