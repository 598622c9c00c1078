// SPDX-License-Identifier: Apache-2.0
// GPU kernels of the ops of both passes; the ops are defined in lookup_ops.cc and gradient_ops.cc.
#include <string>

#include "ops/lookup/bags.h"
#include "ops/tf/absent_rows.h"
#include "ops/tf/bags_input.h"
#include "ops/tf/border.h"
#include "ops/tf/device_table_resource.h"
#include "ops/tf/exchange_service.h"
#include "ops/tf/lookup_checks.h"

namespace sok {
namespace {

namespace tf = tensorflow;

template <typename Key>
class DistinctKeysOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const tf::Tensor& keys = InputOfRank(ctx, 0, "keys", 1);
      const int64_t num_keys = keys.NumElements();
      CheckBatchOfKeys(name(), num_keys);
      DeviceCall call(ctx);
      const int64_t* wide_keys = Wide(call, static_cast<const Key*>(keys.data()), num_keys);
      tf::Tensor room;
      ThrowIfError(ctx->allocate_temp(tf::DT_INT64, keys.shape(), &room));
      const int64_t num_distinct =
          call.engine().DistinctKeys(call.stream(), num_keys, wide_keys, Data<int64_t>(room),
                                     Data<int32_t>(Output(ctx, 1, keys.shape())));
      ctx->set_output(0, room.Slice(0, num_distinct));
    });
  }

 private:
  static const int64_t* Wide(DeviceCall&, const int64_t* keys, int64_t) { return keys; }
  static const int64_t* Wide(DeviceCall& call, const uint32_t* keys, int64_t num_keys) {
    auto* wide_keys = call.Temporary<int64_t>(num_keys);
    call.engine().WidenKeys(call.stream(), num_keys, keys, wide_keys);
    return wide_keys;
  }
};

class FindRowsOp : public tf::OpKernel {
 public:
  explicit FindRowsOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        insert_(Attribute<bool>(ctx, "insert")),
        keys_are_distinct_(Attribute<bool>(ctx, "keys_are_distinct")) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const tf::Tensor& keys = InputOfRank(ctx, 1, "keys", 1);
      const int64_t num_keys = keys.NumElements();
      int64_t* row_ids = Data<int64_t>(Output(ctx, 0, keys.shape()));
      DeviceCall call(ctx);
      LookupDeviceTable(ctx, 0)->WithPlanes(call, [&](const DeviceView& view) {
        if (insert_) {
          view.table.FindOrInsert(call.stream(), num_keys, Data<int64_t>(keys), keys_are_distinct_,
                                  nullptr, view.planes, row_ids);
        } else {
          view.table.Find(call.stream(), num_keys, Data<int64_t>(keys), row_ids);
        }
      });
    });
  }

 private:
  const bool insert_;
  const bool keys_are_distinct_;
};

class InsertRowsOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const tf::Tensor& keys = InputOfRank(ctx, 1, "keys", 1);
      const tf::Tensor& initial_rows = InputOfRank(ctx, 2, "initial_rows", 2);
      int64_t* row_ids = Data<int64_t>(Output(ctx, 0, keys.shape()));
      DeviceCall call(ctx);
      LookupDeviceTable(ctx, 0)->WithPlanes(call, [&](const DeviceView& view) {
        CheckInitialRows(view.table.options(), keys, initial_rows);
        view.table.FindOrInsert(call.stream(), keys.NumElements(), Data<int64_t>(keys),
                                /*keys_are_distinct=*/false, Data<float>(initial_rows), view.planes,
                                row_ids);
      });
    });
  }
};

class PoolRowsOp : public tf::OpKernel {
 public:
  explicit PoolRowsOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        combiner_(ParseCombiner(Attribute<std::string>(ctx, "combiner"))),
        all_keys_have_rows_(Attribute<bool>(ctx, "all_keys_have_rows")) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const tf::Tensor& row_ids = InputOfRank(ctx, 3, "row_ids", 1);
      const Bags bags =
          BagsOnDevice(combiner_, row_ids.NumElements(), InputOfRank(ctx, 5, "inverse", 1),
                       InputOfRank(ctx, 6, "row_splits", 1));
      DeviceCall call(ctx);
      LookupDeviceTable(ctx, 1)->WithPlanes(call, [&](const DeviceView& view) {
        const int64_t dim = view.table.options().dim;
        const float* absent = all_keys_have_rows_
                                  ? nullptr
                                  : AbsentRows(call, view, InputOfRank(ctx, 2, "keys", 1), row_ids,
                                               InputOfRank(ctx, 4, "absent_rows", 2));
        call.engine().PoolRows(call.stream(), bags, dim, view.planes.rows->data(),
                               Data<int64_t>(row_ids), absent,
                               Data<float>(Output(ctx, 0, {bags.num_bags, dim})));
      });
    });
  }

 private:
  const Combiner combiner_;
  const bool all_keys_have_rows_;
};

class PoolReceivedRowsOp : public tf::OpKernel {
 public:
  explicit PoolReceivedRowsOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx), combiner_(ParseCombiner(Attribute<std::string>(ctx, "combiner"))) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const tf::Tensor& rows = InputOfRank(ctx, 0, "rows", 2);
      const int64_t dim = rows.dim_size(1);
      const Bags bags = BagsOnDevice(combiner_, rows.dim_size(0), InputOfRank(ctx, 1, "inverse", 1),
                                     InputOfRank(ctx, 2, "row_splits", 1),
                                     &InputOfRank(ctx, 3, "mean_splits", 1));
      DeviceCall call(ctx);
      call.engine().PoolRows(call.stream(), bags, dim, Data<float>(rows), nullptr, nullptr,
                             Data<float>(Output(ctx, 0, {bags.num_bags, dim})));
    });
  }

 private:
  const Combiner combiner_;
};

class MergeGradientsOp : public tf::OpKernel {
 public:
  explicit MergeGradientsOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx), combiner_(ParseCombiner(Attribute<std::string>(ctx, "combiner"))) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const tf::Tensor& gradients = InputOfRank(ctx, 0, "gradients", 2);
      const int64_t dim = gradients.dim_size(1);
      const int64_t num_distinct = InputOfRank(ctx, 1, "row_ids", 1).NumElements();
      const Bags bags = BagsOnDevice(combiner_, num_distinct, InputOfRank(ctx, 2, "inverse", 1),
                                     InputOfRank(ctx, 3, "row_splits", 1),
                                     &InputOfRank(ctx, 4, "mean_splits", 1));
      CheckGradientsOfBags(name(), gradients, bags);
      DeviceCall call(ctx);
      call.engine().MergeGradients(call.stream(), bags, dim, Data<float>(gradients),
                                   Data<float>(Output(ctx, 0, {num_distinct, dim})));
    });
  }

 private:
  const Combiner combiner_;
};

SOK_REGISTER_DEVICE_KERNEL(Name("SokDistinctKeys").TypeConstraint<int64_t>("Tkey"),
                           DistinctKeysOp<int64_t>);
SOK_REGISTER_DEVICE_KERNEL(Name("SokDistinctKeys").TypeConstraint<uint32_t>("Tkey"),
                           DistinctKeysOp<uint32_t>);
SOK_REGISTER_DEVICE_KERNEL(Name("SokFindRows").HostMemory("table"), FindRowsOp);
SOK_REGISTER_DEVICE_KERNEL(Name("SokInsertRows").HostMemory("table"), InsertRowsOp);
SOK_REGISTER_DEVICE_KERNEL(Name("SokPoolRows").HostMemory("rows").HostMemory("table"), PoolRowsOp);
SOK_REGISTER_DEVICE_KERNEL(Name("SokPoolReceivedRows"), PoolReceivedRowsOp);
SOK_REGISTER_DEVICE_KERNEL(Name("SokMergeGradients"), MergeGradientsOp);

}  // namespace
}  // namespace sok
