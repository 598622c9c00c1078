// SPDX-License-Identifier: Apache-2.0
// Ops behind TensorFlow's checkpoints: all that a table holds, slots too, as tensors and back.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ops/tf/border.h"
#include "ops/tf/plane_checks.h"
#include "ops/tf/restored_keys.h"
#include "ops/tf/table_resource.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

namespace tf = tensorflow;
using tf::shape_inference::InferenceContext;

REGISTER_OP("SokExportPlanes")
    .Input("table: resource")
    .Output("keys: int64")
    .Output("rows: float")
    .Output("slots: num_slots * float")
    .Attr("num_slots: int >= 0")
    .Attr("slot_names: list(string) >= 0")
    .Attr("rows_have_no_gaps: bool")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      for (int i = 1; i < c->num_outputs(); ++i) {
        c->set_output(i, c->Matrix(InferenceContext::kUnknownDim, InferenceContext::kUnknownDim));
      }
      return absl::OkStatus();
    })
    .Doc(
        "The keys that the table holds, their rows and what the named slots hold for them, in the "
        "order of row ids. Fails where rows_have_no_gaps and there are gaps.");

REGISTER_OP("SokImportPlanes")
    .Input("table: resource")
    .Input("keys: int64")
    .Input("rows: float")
    .Input("slots: num_slots * float")
    .Attr("num_slots: int >= 0")
    .Attr("slot_names: list(string) >= 0")
    .Attr("Tkey: {int64, uint32}")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Makes the table hold exactly these keys with these rows and slots; other slots hold their "
        "initial value. What does not fit leaves the table as it was.");

constexpr int64_t kChunkKeys = 1 << 20;  // keeps the list of new keys small beside the rows

int64_t CopyNanoseconds(int64_t width) { return 20 + width / 2; }

/// values[i] = plane[row_ids[i]], for rows of `width` floats.
void ReadPlane(Executor& executor, const float* plane, const std::vector<int64_t>& row_ids,
               int64_t width, float* values) {
  executor.ParallelFor(static_cast<int64_t>(row_ids.size()), CopyNanoseconds(width),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t i = begin; i < end; ++i) {
                           std::copy_n(plane + row_ids[static_cast<size_t>(i)] * width, width,
                                       values + i * width);
                         }
                       });
}

/// plane[row_ids[i]] = values[i], for rows of `width` floats.
void WritePlane(Executor& executor, const float* values, const std::vector<int64_t>& row_ids,
                int64_t width, float* plane) {
  executor.ParallelFor(static_cast<int64_t>(row_ids.size()), CopyNanoseconds(width),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t i = begin; i < end; ++i) {
                           std::copy_n(values + i * width, width,
                                       plane + row_ids[static_cast<size_t>(i)] * width);
                         }
                       });
}

void FillPlane(const RowPlanes::Slot& slot, const std::vector<int64_t>& row_ids) {
  for (const int64_t row : row_ids) {
    std::fill_n(slot.data + row * slot.width, slot.width, slot.initial_value);
  }
}

class ExportPlanesOp : public tf::OpKernel {
 public:
  explicit ExportPlanesOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        slot_names_(Attribute<std::vector<std::string>>(ctx, "slot_names")),
        rows_have_no_gaps_(Attribute<bool>(ctx, "rows_have_no_gaps")) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      OpExecutor executor(ctx);
      LookupTable(ctx, 0)->WithSlots(slot_names_, [&](const Table& table, const RowPlanes& planes,
                                                      const std::vector<size_t>& places) {
        const TableEntries held = table.Export();
        const auto count = static_cast<int64_t>(held.keys.size());
        CheckAllSlotsAreNamed(table.options(), planes.slots.size(), places.size());
        if (rows_have_no_gaps_ && count > 0) {
          CheckNoGaps(table.options(), count, held.row_ids.back());
        }
        std::copy_n(held.keys.begin(), count, Data<int64_t>(Output(ctx, 0, {count})));
        const int64_t dim = table.options().dim;
        ReadPlane(executor, planes.rows, held.row_ids, dim,
                  Data<float>(Output(ctx, 1, {count, dim})));
        for (size_t i = 0; i < places.size(); ++i) {
          const RowPlanes::Slot& slot = planes.slots[places[i]];
          ReadPlane(executor, slot.data, held.row_ids, slot.width,
                    Data<float>(Output(ctx, static_cast<int>(2 + i), {count, slot.width})));
        }
      });
    });
  }

 private:
  const std::vector<std::string> slot_names_;
  const bool rows_have_no_gaps_;
};

class ImportPlanesOp : public tf::OpKernel {
 public:
  explicit ImportPlanesOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        slot_names_(Attribute<std::vector<std::string>>(ctx, "slot_names")),
        has_narrow_keys_(Attribute<tf::DataType>(ctx, "Tkey") == tf::DT_UINT32) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const tf::Tensor& keys_input = InputOfRank(ctx, 1, "keys", 1);
      const int64_t* begin = Data<int64_t>(keys_input);
      const std::vector<int64_t> keys(begin, begin + keys_input.NumElements());
      OpExecutor executor(ctx);
      const auto resource = LookupTable(ctx, 0);
      resource->Replace(slot_names_, [&](const Table& table, const RowPlanes& planes,
                                         const std::vector<size_t>& places) {
        const TableOptions& options = table.options();
        const auto num_keys = static_cast<int64_t>(keys.size());
        CheckPlaneToRestore(options, "rows", num_keys, options.dim, ctx->input(2));
        for (size_t i = 0; i < places.size(); ++i) {
          CheckPlaneToRestore(options, slot_names_[i], num_keys, planes.slots[places[i]].width,
                              ctx->input(static_cast<int>(3 + i)));
        }
        CheckKeysFit(options, keys);
        if (has_narrow_keys_) CheckKeysAreNarrow(options, keys);
        std::shared_ptr<Table> restored = Table::Create(Device::kCpu, options);
        const std::vector<int64_t> row_ids = Insert(executor, *restored, keys);
        // Nothing fails from here on.
        resource->WritePreset(planes.rows);
        WritePlane(executor, Data<float>(ctx->input(2)), row_ids, options.dim, planes.rows);
        for (size_t place = 0; place < planes.slots.size(); ++place) {
          const RowPlanes::Slot& slot = planes.slots[place];
          const auto found = std::find(places.begin(), places.end(), place);
          if (found == places.end()) {
            FillPlane(slot, row_ids);
          } else {
            const auto input = static_cast<int>(3 + (found - places.begin()));
            WritePlane(executor, Data<float>(ctx->input(input)), row_ids, slot.width, slot.data);
          }
        }
        return restored;
      });
    });
  }

 private:
  static std::vector<int64_t> Insert(Executor& executor, Table& table,
                                     const std::vector<int64_t>& keys) {
    const auto count = static_cast<int64_t>(keys.size());
    std::vector<int64_t> row_ids(keys.size());
    for (int64_t begin = 0; begin < count; begin += kChunkKeys) {
      table.FindOrInsert(executor, std::min(kChunkKeys, count - begin), keys.data() + begin,
                         /*keys_are_distinct=*/true, nullptr, RowPlanes(), row_ids.data() + begin);
    }
    return row_ids;
  }

  const std::vector<std::string> slot_names_;
  const bool has_narrow_keys_;
};

REGISTER_KERNEL_BUILDER(Name("SokExportPlanes").Device(tf::DEVICE_CPU), ExportPlanesOp);
REGISTER_KERNEL_BUILDER(Name("SokImportPlanes").Device(tf::DEVICE_CPU), ImportPlanesOp);

}  // namespace
}  // namespace sok
