// SPDX-License-Identifier: Apache-2.0
// GPU kernels of the ops that carry rows and gradients between ranks; the ops are defined in
// exchange_ops.cc. Ranks meet in the host's memory: what is sent is copied there, what is received
// is copied from there.
#include "ops/tf/absent_rows.h"
#include "ops/tf/bags_input.h"
#include "ops/tf/border.h"
#include "ops/tf/device_table_resource.h"
#include "ops/tf/exchange_op.h"
#include "ops/tf/exchanged_rows.h"

namespace sok {
namespace {

namespace tf = tensorflow;

/// Output 0: the rows that were received.
void ReceiveRows(tf::OpKernelContext* ctx, const std::string& op_name, const ExchangeResult& result,
                 const tf::Tensor& counts, int64_t dim) {
  const int64_t num_rows = NumReceivedRows(op_name, result, counts, dim);
  const DeviceCall call(ctx);
  call.CopyFromHost(Data<float>(Output(ctx, 0, {num_rows, dim})),
                    reinterpret_cast<const float*>(result.data.data()), num_rows * dim);
}

class ExchangeRowsOp : public ExchangeOp {
 public:
  explicit ExchangeRowsOp(tf::OpKernelConstruction* ctx)
      : ExchangeOp(ctx),
        dim_(Attribute<int64_t>(ctx, "dim")),
        all_keys_have_rows_(Attribute<bool>(ctx, "all_keys_have_rows")) {}

 protected:
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    const tf::Tensor& row_ids = InputOfRank(ctx, 3, "row_ids", 1);
    const Bags sums =
        BagsOnDevice(Combiner::kSum, row_ids.NumElements(), InputOfRank(ctx, 5, "inverse", 1),
                     InputOfRank(ctx, 6, "asked_splits", 1));
    request->send_bytes = RowBytes(ctx->input(7), dim_);
    const int64_t num_floats = sums.num_bags * dim_;
    request->data.resize(static_cast<size_t>(num_floats) * sizeof(float));
    DeviceCall call(ctx);
    LookupDeviceTable(ctx, 1)->WithPlanes(call, [&](const DeviceView& view) {
      const float* absent = all_keys_have_rows_
                                ? nullptr
                                : AbsentRows(call, view, InputOfRank(ctx, 2, "keys", 1), row_ids,
                                             InputOfRank(ctx, 4, "absent_rows", 2));
      auto* answers = call.Temporary<float>(num_floats);
      call.engine().PoolRows(call.stream(), sums, dim_, view.planes.rows->data(),
                             Data<int64_t>(row_ids), absent, answers);
      call.CopyToHost(reinterpret_cast<float*>(request->data.data()), answers, num_floats);
    });
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    ReceiveRows(ctx, name(), result, ctx->input(8), dim_);
  }

 private:
  const int64_t dim_;
  const bool all_keys_have_rows_;
};

class ExchangeGradientsOp : public ExchangeOp {
 public:
  using ExchangeOp::ExchangeOp;

 protected:
  void Send(tf::OpKernelContext* ctx, ExchangeRequest* request) override {
    const tf::Tensor& gradients = InputOfRank(ctx, 0, "gradients", 2);
    request->send_bytes = GradientBytes(name(), gradients, ctx->input(2));
    request->data.resize(gradients.TotalBytes());
    const DeviceCall call(ctx);
    call.CopyToHost(reinterpret_cast<float*>(request->data.data()), Data<float>(gradients),
                    gradients.NumElements());
  }

  void Receive(tf::OpKernelContext* ctx, const ExchangeResult& result) override {
    ReceiveRows(ctx, name(), result, ctx->input(1), ctx->input(0).dim_size(1));
  }
};

SOK_REGISTER_DEVICE_KERNEL(Name("SokExchangeRows")
                               .HostMemory("rows")
                               .HostMemory("table")
                               .HostMemory("asked_counts")
                               .HostMemory("answer_counts")
                               .HostMemory("ticket"),
                           ExchangeRowsOp);
SOK_REGISTER_DEVICE_KERNEL(Name("SokExchangeGradients")
                               .HostMemory("asked_counts")
                               .HostMemory("answer_counts")
                               .HostMemory("ticket"),
                           ExchangeGradientsOp);

}  // namespace
}  // namespace sok
