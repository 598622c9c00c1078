// SPDX-License-Identifier: Apache-2.0
// Ops behind TensorFlow's checkpoints: all that a table holds, slots too, as tensors and back.
#include <algorithm>
#include <string>
#include <vector>

#include "ops/tf/output_shapes.h"
#include "ops/tf/plane_checks.h"
#include "ops/tf/restored_keys.h"
#include "ops/tf/table_contents.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace sok {
namespace {

namespace tf = tensorflow;

REGISTER_OP("SokExportPlanes")
    .Input("table: resource")
    .Output("keys: int64")
    .Output("rows: float")
    .Output("slots: num_slots * float")
    .Attr("num_slots: int >= 0")
    .Attr("slot_names: list(string) >= 0")
    .Attr("rows_have_no_gaps: bool")
    .SetIsStateful()
    .SetShapeFn(VectorAndMatrices)
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

REGISTER_OP("SokSavedBase")
    .Input("table: resource")
    .Output("id: string")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc(
        "Id of the checkpoint of a series that the table was saved in last; '': there is none, or "
        "its contents, or its slots, have been replaced since.");

class SavedBaseOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const auto resource = LookupTable(ctx, tf::HandleFromInput(ctx, 0));
      Output(ctx, 0, {}).scalar<tf::tstring>()() = resource->saved_rows().base();
    });
  }
};

class ExportPlanesOp : public tf::OpKernel {
 public:
  explicit ExportPlanesOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        slot_names_(Attribute<std::vector<std::string>>(ctx, "slot_names")),
        rows_have_no_gaps_(Attribute<bool>(ctx, "rows_have_no_gaps")) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      OpCall call(ctx);
      const auto resource = LookupTable(ctx, tf::HandleFromInput(ctx, 0));
      resource->NoteStep(ctx);
      resource->WithSlots(call, slot_names_, [&](const TableView& view) {
        CheckAllSlotsAreNamed(view.options(), view.planes.slots.size(), view.places.size());
        const TableEntries held = view.table.Export(call);
        if (rows_have_no_gaps_ && held.count > 0) {
          int64_t last_row_id = 0;
          call.CopyToHost(&last_row_id, held.row_ids + held.count - 1, 1);
          CheckNoGaps(view.options(), held.count, last_row_id);
        }
        call.CopyToHost(Data<int64_t>(Output(ctx, 0, {held.count})), held.keys, held.count);
        OutputPlane(ctx, call, 1, *view.planes.rows, held);
        for (size_t i = 0; i < view.places.size(); ++i) {
          OutputPlane(ctx, call, static_cast<int>(2 + i), *view.planes.slots[view.places[i]].plane,
                      held);
        }
      });
    });
  }

 private:
  static void OutputPlane(tf::OpKernelContext* ctx, OpCall& call, int output, Plane& plane,
                          const TableEntries& held) {
    RowMover(call, plane, held.count)
        .ToHost(held.count, held.row_ids,
                Data<float>(Output(ctx, output, {held.count, plane.width()})));
  }

  const std::vector<std::string> slot_names_;
  const bool rows_have_no_gaps_;
};

class ImportPlanesOp : public tf::OpKernel {
 public:
  explicit ImportPlanesOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        slot_names_(Attribute<std::vector<std::string>>(ctx, "slot_names")),
        keys_(Attribute<tf::DataType>(ctx, "Tkey") == tf::DT_UINT32 ? KeysOf::kUint32
                                                                    : KeysOf::kInt64) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      OpCall call(ctx);
      const auto resource = LookupTable(ctx, tf::HandleFromInput(ctx, 0));
      resource->Replace(call, slot_names_, [&](const TableView& view, const TableView& fresh) {
        Check(ctx, view);
        Fill(ctx, call, fresh);
      });
    });
  }

 private:
  void Check(tf::OpKernelContext* ctx, const TableView& view) const {
    const TableOptions& options = view.options();
    const tf::Tensor& keys = InputOfRank(ctx, 1, "keys", 1);
    const int64_t num_keys = keys.NumElements();
    CheckPlaneToRestore(options, "rows", num_keys, options.dim, ctx->input(2).shape());
    for (size_t i = 0; i < view.places.size(); ++i) {
      CheckPlaneToRestore(options, slot_names_[i], num_keys,
                          view.planes.slots[view.places[i]].plane->width(),
                          SlotInput(ctx, i).shape());
    }
    const int64_t* begin = Data<int64_t>(keys);
    CheckKeysFit(options, std::vector<int64_t>(begin, begin + num_keys), keys_);
  }

  static void Fill(tf::OpKernelContext* ctx, OpCall& call, const TableView& fresh) {
    const int64_t dim = fresh.options().dim;
    const int64_t num_keys = ctx->input(1).NumElements();
    const int64_t most = RowsOfPart(dim);
    TableFiller filler(call, fresh, num_keys);
    std::vector<RowMover> slots;
    for (const size_t place : fresh.places) {
      slots.emplace_back(call, *fresh.planes.slots[place].plane, std::min(most, num_keys));
    }
    for (int64_t first = 0; first < num_keys; first += most) {
      const int64_t count = std::min(most, num_keys - first);
      const int64_t* row_ids = filler.Insert(count, Data<int64_t>(ctx->input(1)) + first,
                                             Data<float>(ctx->input(2)) + first * dim);
      for (size_t i = 0; i < slots.size(); ++i) {
        const tf::Tensor& values = SlotInput(ctx, i);
        slots[i].FromHost(count, row_ids, Data<float>(values) + first * values.dim_size(1));
      }
    }
  }

  static const tf::Tensor& SlotInput(tf::OpKernelContext* ctx, size_t slot) {
    return ctx->input(static_cast<int>(3 + slot));
  }

  const std::vector<std::string> slot_names_;
  const KeysOf keys_;
};

// On a GPU: checkpoints are on the host.
SOK_REGISTER_KERNEL(Name("SokExportPlanes")
                        .HostMemory("table")
                        .HostMemory("keys")
                        .HostMemory("rows")
                        .HostMemory("slots"),
                    ExportPlanesOp);
SOK_REGISTER_KERNEL(Name("SokImportPlanes")
                        .HostMemory("table")
                        .HostMemory("keys")
                        .HostMemory("rows")
                        .HostMemory("slots"),
                    ImportPlanesOp);
SOK_REGISTER_KERNEL(Name("SokSavedBase").HostMemory("table").HostMemory("id"), SavedBaseOp);

}  // namespace
}  // namespace sok
