// SPDX-License-Identifier: Apache-2.0
// The two halves of a round between which the ranks' bytes travel. A graph runs them in a loop, so
// that rounds need no Python: a rank whose script holds its lock for long answers the others.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/tf/border.h"
#include "ops/tf/engine_of_op.h"
#include "ops/tf/exchange_rounds.h"
#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

namespace tf = tensorflow;

REGISTER_OP("SokNextPart")
    .Input("go_on: bool")
    .Output("data: uint8")
    .Output("send_bytes: int32")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::UnknownShape)
    .Doc(
        "Waits until there is a reason for a round, and gives what this rank sends, by destination "
        "rank, or the next part of it; without what ranks of this host get through memory that it "
        "shares with them. What came for the part before has been taken.");

REGISTER_OP("SokTakePart")
    .Input("data: uint8")
    .Input("received_bytes: int32")
    .Output("go_on: bool")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc("Takes what came for a part, by source rank. go_on: the exchanges have not ended.");

/// A part where it stands.
class PartBuffer : public tf::TensorBuffer {
 public:
  explicit PartBuffer(std::shared_ptr<const MessageParts> parts)
      : tf::TensorBuffer(const_cast<char*>(parts->data())),
        num_bytes_(static_cast<size_t>(parts->num_bytes())),
        parts_(std::move(parts)) {}
  size_t size() const override { return num_bytes_; }
  tf::TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tf::AllocationDescription* description) const override {
    description->set_requested_bytes(static_cast<int64_t>(num_bytes_));
    description->set_allocator_name("sok_exchange");
  }

 private:
  const size_t num_bytes_;
  const std::shared_ptr<const MessageParts> parts_;
};

class NextPartOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const std::shared_ptr<const MessageParts> parts = NextPart();
      const std::vector<Pieces> messages = SendWithinHost(*parts);
      int32_t* splits = Data<int32_t>(Output(ctx, 1, {static_cast<int64_t>(messages.size())}));
      int64_t num_bytes = 0;
      for (const Pieces& message : messages) {
        const auto message_bytes = static_cast<int64_t>(NumBytes(message));
        *splits++ = static_cast<int32_t>(message_bytes);
        num_bytes += message_bytes;
      }
      if (parts->is_joined()) {
        tf::core::RefCountPtr<tf::TensorBuffer> buffer(new PartBuffer(parts));
        ctx->set_output(0,
                        tf::Tensor(tf::DT_UINT8, tf::TensorShape({num_bytes}), std::move(buffer)));
      } else {
        Join(messages, Data<uint8_t>(Output(ctx, 0, {num_bytes})));
      }
    });
  }

 private:
  static void Join(const std::vector<Pieces>& messages, uint8_t* next) {
    for (const Pieces& pieces : messages) {
      for (const std::string_view piece : pieces) {
        next = std::copy(piece.begin(), piece.end(), next);
      }
    }
  }
};

class TakePartOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const tf::Tensor& data = InputOfRank(ctx, 0, "data", 1);
      const tf::Tensor& sizes = InputOfRank(ctx, 1, "received_bytes", 1);
      const int32_t* first = Data<int32_t>(sizes);
      const std::vector<int64_t> received_bytes(first, first + sizes.NumElements());
      std::vector<std::string_view> part = SplitBySource(data.tensor_data().data(), received_bytes);
      ReceiveWithinHost(&part);
      Output(ctx, 0, {}).scalar<bool>()() = TakePart(part);
    });
  }
};

SOK_REGISTER_KERNEL(
    Name("SokNextPart").HostMemory("go_on").HostMemory("data").HostMemory("send_bytes"),
    NextPartOp);
SOK_REGISTER_KERNEL(
    Name("SokTakePart").HostMemory("data").HostMemory("received_bytes").HostMemory("go_on"),
    TakePartOp);

}  // namespace
}  // namespace sok
