// SPDX-License-Identifier: Apache-2.0
// GPU kernels of the ops that move whole tables; the ops are defined in file_ops.cc and
// checkpoint_ops.cc. What they move stands in the host's memory: that is where files are.
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "ops/tf/border.h"
#include "ops/tf/device_plane.h"
#include "ops/tf/device_table_resource.h"
#include "ops/tf/dump_op.h"
#include "ops/tf/key_file.h"
#include "ops/tf/lookup_checks.h"
#include "ops/tf/plane_checks.h"
#include "ops/tf/restored_keys.h"

namespace sok {
namespace {

namespace tf = tensorflow;

constexpr int64_t kChunkRows = 1 << 16;

/// What a table holds, in temporary memory on the device, in the order of row ids.
struct Held {
  int64_t count;
  const int64_t* keys;
  const int64_t* row_ids;
};

Held Export(DeviceCall& call, EngineTable& table) {
  const int64_t count = table.size(call.stream()).num_keys;
  auto* keys = call.Temporary<int64_t>(count);
  auto* row_ids = call.Temporary<int64_t>(count);
  table.Export(call.stream(), count, keys, row_ids);
  return {count, keys, row_ids};
}

/// Copies of what a table holds, as TableContents says.
struct CopiedContents {
  TableOptions options;
  TableEntries entries;
  std::vector<float> rows;

  TableContents contents() const { return TableContents(options, entries, rows.data()); }
};

CopiedContents CopyContents(tf::OpKernelContext* ctx) {
  DeviceCall call(ctx);
  CopiedContents copied;
  LookupDeviceTable(ctx, 0)->Alone(call, {}, [&](const DeviceView& view) {
    const TableOptions& options = view.table.options();
    const Held held = Export(call, view.table);
    copied.options = options;
    copied.entries.keys = call.ToHost(held.keys, held.count);
    if (options.use_hash_index) {
      copied.entries.row_ids.resize(copied.entries.keys.size());
      std::iota(copied.entries.row_ids.begin(), copied.entries.row_ids.end(), 0);
      copied.rows.resize(static_cast<size_t>(held.count * options.dim));
      CopyRowsToHost(call, *view.planes.rows, held.count, held.row_ids, copied.rows.data());
    } else {
      copied.entries.row_ids = call.ToHost(held.row_ids, held.count);
      copied.rows = call.ToHost(view.planes.rows->data(),
                                view.NumWrittenRows(call, *view.planes.rows) * options.dim);
    }
  });
  return copied;
}

class ExportTableOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] { OutputContents(ctx, CopyContents(ctx).contents()); });
  }
};

class RowsInUseOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      DeviceCall call(ctx);
      LookupDeviceTable(ctx, 0)->Alone(call, {}, [&](const DeviceView& view) {
        const int64_t count = view.table.size(call.stream()).num_keys;
        view.table.Export(call.stream(), count, call.Temporary<int64_t>(count),
                          Data<int64_t>(Output(ctx, 0, {count})));
      });
    });
  }
};

class DumpTableOp : public DumpOp {
 public:
  using DumpOp::DumpOp;

 protected:
  void WithContents(tf::OpKernelContext* ctx, const UseContents& use) const override {
    const CopiedContents copied = CopyContents(ctx);  // while files are written, steps go on
    use(copied.options, copied.contents());
  }
};

class RestoreTableOp : public tf::OpKernel {
 public:
  explicit RestoreTableOp(tf::OpKernelConstruction* ctx)
      : tf::OpKernel(ctx),
        has_narrow_keys_(Attribute<tf::DataType>(ctx, "Tkey") == tf::DT_UINT32) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      DeviceCall call(ctx);
      const auto resource = LookupDeviceTable(ctx, 0);
      TableOptions options;
      resource->WithPlanes(call, [&](const DeviceView& view) { options = view.table.options(); });
      const KeyFiles files(ctx->env(), ctx->input(1).scalar<tf::tstring>()(),
                           ctx->input(2).scalar<tf::tstring>()(), options.dim);
      const std::vector<int64_t> keys = files.ReadKeys();
      std::vector<int64_t> owned;
      std::copy_if(keys.begin(), keys.end(), std::back_inserter(owned),
                   [&](int64_t key) { return IsOwned(options, key); });
      const auto check = [&](const DeviceView&) {
        CheckKeysFit(options, owned);
        if (has_narrow_keys_) CheckKeysAreNarrow(options, owned);
      };
      resource->Replace(
          call, {}, check, owned, [&](const DeviceView& view, const int64_t* row_ids) {
            files.ForEachChunk(kChunkRows, [&](int64_t first, int64_t count, const float* rows) {
              const std::vector<float> of_owned =
                  RowsOfOwned(options, keys.data() + first, count, rows);
              const auto num_rows = static_cast<int64_t>(of_owned.size()) / options.dim;
              CopyRowsFromHost(call, *view.planes.rows, num_rows, row_ids, of_owned.data());
              row_ids += num_rows;
            });
          });
    });
  }

 private:
  static std::vector<float> RowsOfOwned(const TableOptions& options, const int64_t* keys,
                                        int64_t count, const float* rows) {
    std::vector<float> of_owned;
    for (int64_t i = 0; i < count; ++i) {
      const float* row = rows + i * options.dim;
      if (IsOwned(options, keys[i])) of_owned.insert(of_owned.end(), row, row + options.dim);
    }
    return of_owned;
  }

  const bool has_narrow_keys_;
};

class LoadTableOp : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      DeviceCall call(ctx);
      const tf::Tensor& values = ctx->input(1);
      const auto resource = LookupDeviceTable(ctx, 0);
      TableOptions options;
      resource->WithPlanes(call, [&](const DeviceView& view) { options = view.table.options(); });
      CheckLoadedValues(options, values);
      std::vector<int64_t> keys;
      for (int64_t key = options.rank; key < values.dim_size(0); key += options.world_size) {
        keys.push_back(key);
      }
      const auto check = [&](const DeviceView&) { CheckKeysFit(options, keys); };
      resource->Replace(call, {}, check, keys, [&](const DeviceView& view, const int64_t* row_ids) {
        std::vector<float> rows;
        for (const int64_t key : keys) {
          const float* row = Data<float>(values) + key * options.dim;
          rows.insert(rows.end(), row, row + options.dim);
        }
        CopyRowsFromHost(call, *view.planes.rows, static_cast<int64_t>(keys.size()), row_ids,
                         rows.data());
      });
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
      DeviceCall call(ctx);
      LookupDeviceTable(ctx, 0)->Alone(call, slot_names_, [&](const DeviceView& view) {
        const TableOptions& options = view.table.options();
        CheckAllSlotsAreNamed(options, view.planes.slots.size(), view.places.size());
        const Held held = Export(call, view.table);
        if (rows_have_no_gaps_ && held.count > 0) {
          CheckNoGaps(options, held.count, call.ToHost(held.row_ids + held.count - 1, 1).front());
        }
        call.CopyToHost(Data<int64_t>(Output(ctx, 0, {held.count})), held.keys, held.count);
        CopyPlane(ctx, call, 1, *view.planes.rows, held);
        for (size_t i = 0; i < view.places.size(); ++i) {
          CopyPlane(ctx, call, static_cast<int>(2 + i), *view.planes.slots[view.places[i]].plane,
                    held);
        }
      });
    });
  }

 private:
  static void CopyPlane(tf::OpKernelContext* ctx, DeviceCall& call, int output,
                        const EnginePlane& plane, const Held& held) {
    CopyRowsToHost(call, plane, held.count, held.row_ids,
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
        has_narrow_keys_(Attribute<tf::DataType>(ctx, "Tkey") == tf::DT_UINT32) {}

  void Compute(tf::OpKernelContext* ctx) override {
    FailOpOnThrow(ctx, [&] {
      const tf::Tensor& keys_input = InputOfRank(ctx, 1, "keys", 1);
      const int64_t* begin = Data<int64_t>(keys_input);
      const std::vector<int64_t> keys(begin, begin + keys_input.NumElements());
      const auto num_keys = static_cast<int64_t>(keys.size());
      DeviceCall call(ctx);
      const auto check = [&](const DeviceView& view) {
        const TableOptions& options = view.table.options();
        CheckPlaneToRestore(options, "rows", num_keys, options.dim, ctx->input(2));
        for (size_t i = 0; i < view.places.size(); ++i) {
          CheckPlaneToRestore(options, slot_names_[i], num_keys,
                              view.planes.slots[view.places[i]].plane->width(),
                              ctx->input(static_cast<int>(3 + i)));
        }
        CheckKeysFit(options, keys);
        if (has_narrow_keys_) CheckKeysAreNarrow(options, keys);
      };
      LookupDeviceTable(ctx, 0)->Replace(
          call, slot_names_, check, keys, [&](const DeviceView& view, const int64_t* row_ids) {
            CopyRowsFromHost(call, *view.planes.rows, num_keys, row_ids,
                             Data<float>(ctx->input(2)));
            for (size_t i = 0; i < view.places.size(); ++i) {
              CopyRowsFromHost(call, *view.planes.slots[view.places[i]].plane, num_keys, row_ids,
                               Data<float>(ctx->input(static_cast<int>(3 + i))));
            }
          });
    });
  }

 private:
  const std::vector<std::string> slot_names_;
  const bool has_narrow_keys_;
};

SOK_REGISTER_DEVICE_KERNEL(
    Name("SokExportTable").HostMemory("table").HostMemory("keys").HostMemory("rows"),
    ExportTableOp);
SOK_REGISTER_DEVICE_KERNEL(Name("SokRowsInUse").HostMemory("table"), RowsInUseOp);
SOK_REGISTER_DEVICE_KERNEL(
    Name("SokDumpTable").HostMemory("table").HostMemory("keys_path").HostMemory("values_path"),
    DumpTableOp);
SOK_REGISTER_DEVICE_KERNEL(
    Name("SokRestoreTable").HostMemory("table").HostMemory("keys_path").HostMemory("values_path"),
    RestoreTableOp);
SOK_REGISTER_DEVICE_KERNEL(Name("SokLoadTable").HostMemory("table").HostMemory("values"),
                           LoadTableOp);
SOK_REGISTER_DEVICE_KERNEL(Name("SokExportPlanes")
                               .HostMemory("table")
                               .HostMemory("keys")
                               .HostMemory("rows")
                               .HostMemory("slots"),
                           ExportPlanesOp);
SOK_REGISTER_DEVICE_KERNEL(Name("SokImportPlanes")
                               .HostMemory("table")
                               .HostMemory("keys")
                               .HostMemory("rows")
                               .HostMemory("slots"),
                           ImportPlanesOp);

}  // namespace
}  // namespace sok
