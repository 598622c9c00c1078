// SPDX-License-Identifier: Apache-2.0
// The op by which ranks of MPI's jobs exchange rows of dense tensors.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "ops/tf/base/border.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/ranks/exchange_op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

using tf::shape_inference::InferenceContext;
using tf::shape_inference::ShapeHandle;

REGISTER_OP("SokExchangeTensors")
    .Input("rows: T")
    .Input("splits: int32")
    .Input("collective: variant")
    .Attr("T: {float, double, half, bfloat16, int8, uint8, int16, uint16, int32, int64, bool}")
    .Output("received: T")
    .Output("received_splits: int32")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle row, received;
      TF_RETURN_IF_ERROR(c->Subshape(c->input(0), 1, &row));
      TF_RETURN_IF_ERROR(c->Concatenate(c->Vector(InferenceContext::kUnknownDim), row, &received));
      c->set_output(0, received);
      c->set_output(1, c->Vector(InferenceContext::kUnknownDim));
      return absl::OkStatus();
    })
    .Doc(
        "Sends each rank some rows: `splits` [number of ranks] are their numbers, those for rank 0 "
        "first; if it is empty, each rank gets all. Outputs the rows from all ranks, those of rank "
        "0 first, and the number of rows from each.");

class ExchangeTensorsOp : public ExchangeOp {
 public:
  using ExchangeOp::ExchangeOp;

 protected:
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    const tf::Tensor& rows = Input(ctx, "rows");
    const tf::Tensor& splits = InputOfRank(ctx, "splits", 1);
    const auto num_ranks = static_cast<int64_t>(
        CollectiveHandleIn(Input(ctx, "collective"))->coordinator().num_ranks());
    if (rows.dims() == 0) Throw(ErrorCode::kInvalidArgument, name(), ": rows must not be a scalar");
    const int64_t num_splits = splits.NumElements();
    const auto* sizes = Data<int32_t>(splits);
    const std::string_view bytes(rows.tensor_data().data(), rows.tensor_data().size());
    if (num_splits == 0) {
      request->outgoing.by_rank.assign(static_cast<size_t>(num_ranks), Pieces{bytes});
    } else {
      CheckSplits(num_ranks, rows, num_splits, sizes);
      size_t begin = 0;
      for (int64_t rank = 0; rank < num_ranks; ++rank) {
        const auto size = static_cast<size_t>(sizes[rank]) * RowBytes(rows);
        request->outgoing.by_rank.push_back({bytes.substr(begin, size)});
        begin += size;
      }
    }
    request->outgoing.memory = std::make_shared<const tf::Tensor>(rows);
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    const tf::Tensor& rows = Input(ctx, "rows");
    const size_t row_bytes = std::max<size_t>(RowBytes(rows), 1);
    auto* sizes =
        Data<int32_t>(Output(ctx, "received_splits", {static_cast<int64_t>(result.parts.size())}));
    tf::TensorShape shape = rows.shape();
    shape.set_dim(0, 0);
    for (const std::string_view part : result.parts) {
      if (part.size() % row_bytes != 0)
        Throw(ErrorCode::kInvalidArgument, name(), ": the ranks' rows have different shapes");
      *sizes++ = static_cast<int32_t>(part.size() / row_bytes);
      shape.set_dim(0, shape.dim_size(0) + static_cast<int64_t>(part.size() / row_bytes));
    }
    char* to = static_cast<char*>(Output(ctx, "received", shape).data());
    for (const std::string_view part : result.parts) {
      if (!part.empty()) std::memcpy(to, part.data(), part.size());
      to += part.size();
    }
  }

 private:
  static size_t RowBytes(const tf::Tensor& rows) {
    size_t bytes = static_cast<size_t>(tf::DataTypeSize(rows.dtype()));
    for (int i = 1; i < rows.dims(); ++i) bytes *= static_cast<size_t>(rows.dim_size(i));
    return bytes;
  }

  void CheckSplits(int64_t num_ranks, const tf::Tensor& rows, int64_t num_splits,
                   const int32_t* splits) const {
    int64_t total = 0;
    bool is_valid = num_splits == num_ranks;
    for (int64_t i = 0; i < num_splits; ++i) {
      is_valid = is_valid && splits[i] >= 0;
      total += splits[i];
    }
    if (is_valid && total <= rows.dim_size(0)) return;
    Throw(ErrorCode::kInvalidArgument, name(), ": splits must be the numbers of rows for ",
          num_ranks, " ranks, which add up to at most ", rows.dim_size(0), ", got ", num_splits,
          " that add up to ", total);
  }
};

const RegisteredKernel kExchangeTensorsKernels[] = {
    {"SokExchangeTensors",
     Make<ExchangeTensorsOp>,
     {"rows", "splits", "collective", "received", "received_splits"}},
};

}  // namespace
}  // namespace sok
