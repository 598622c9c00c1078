// SPDX-License-Identifier: Apache-2.0
// The two halves of a round, with Horovod's all-to-all between them. A graph runs them in a loop,
// so that rounds need no Python: a rank replies even while its script holds the interpreter lock.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/tf/base/border.h"
#include "ops/tf/base/engine_of_op.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/owning_tensor.h"
#include "ops/tf/ranks/exchange_service.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

REGISTER_OP("SokNextPart")
    .Input("go_on: bool")
    .Output("data: uint8")
    .Output("send_bytes: int32")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::UnknownShape)
    .Doc(
        "Waits until a round of the exchange is due, and outputs the bytes that this rank sends "
        "in it, by destination rank. SokTakePart must have taken the previous round.");

REGISTER_OP("SokTakePart")
    .Input("data: uint8")
    .Input("received_bytes: int32")
    .Output("go_on: bool")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc("Takes the bytes of a round, by source rank. go_on: the exchanges have not ended.");

AllToAllTransport& AllToAll() {
  const std::shared_ptr<AllToAllTransport> transport = CurrentAllToAll();
  if (!transport)
    Throw(ErrorCode::kFailedPrecondition, "this process has no transport that exchanges in rounds");
  return *transport;  // lives as long as the process
}

void NextPart(tf::OpKernelContext* ctx) {
  AllToAllTransport::Outgoing outgoing = AllToAll().Next();
  const std::vector<int64_t>& bytes = outgoing.send_bytes;
  std::copy(bytes.begin(), bytes.end(),
            Data<int32_t>(Output(ctx, "send_bytes", {static_cast<int64_t>(bytes.size())})));
  const auto data = std::make_shared<std::vector<char>>(std::move(outgoing.data));
  const tf::TensorShape shape({static_cast<int64_t>(data->size())});
  SetOutput(ctx, "data", TensorIn(data->data(), tf::DT_UINT8, shape, data));
}

void TakePart(tf::OpKernelContext* ctx) {
  const tf::Tensor& data = InputOfRank(ctx, "data", 1);
  const tf::Tensor& sizes = InputOfRank(ctx, "received_bytes", 1);
  std::string_view left(data.tensor_data().data(), data.tensor_data().size());
  std::vector<std::string_view> by_source;
  for (int64_t source = 0; source < sizes.NumElements(); ++source) {
    const auto num_bytes = static_cast<size_t>(Data<int32_t>(sizes)[source]);
    by_source.push_back(left.substr(0, num_bytes));
    left.remove_prefix(std::min(num_bytes, left.size()));
  }
  Output(ctx, "go_on", {}).scalar<bool>()() = AllToAll().Take(by_source);
}

const RegisteredKernel kAllToAllKernels[] = {
    {"SokNextPart", Make<KernelOf<Calls<NextPart>>>, {"go_on", "data", "send_bytes"}},
    {"SokTakePart", Make<KernelOf<Calls<TakePart>>>, {"data", "received_bytes", "go_on"}},
};

}  // namespace
}  // namespace sok
