// SPDX-License-Identifier: Apache-2.0
// Device pointers in, StoredCudaTable calls out. Shapes and dtypes are checked, and arrays kept
// alive, by sok_compat/engine/cuda_table.py.
#include "ops/python/cuda_bindings.h"

#if SOK_HAS_CUDA
#include "ops/cuda/stored_cuda_table.h"
#endif

namespace nb = nanobind;

namespace sok {

#if SOK_HAS_CUDA
namespace {

/// An address in device memory, or a stream's handle, as CuPy gives it.
using Address = uintptr_t;

CudaStreamHandle Stream(Address handle) { return reinterpret_cast<CudaStreamHandle>(handle); }

template <typename Value>
Value* At(Address address) {
  return reinterpret_cast<Value*>(address);
}

}  // namespace

void BindCudaTable(nb::module_& module) {
  using WithoutGil = nb::call_guard<nb::gil_scoped_release>;
  module.attr("HAS_CUDA") = true;
  module.attr("WHY_NO_CUDA") = "";
  nb::class_<StoredCudaTable>(module, "StoredCudaTable")
      .def(nb::init<const TableOptions&, int>(), nb::arg("options"), nb::arg("device"))
      .def_prop_ro("size", &StoredCudaTable::size, WithoutGil())
      .def_prop_ro("index_bytes", &StoredCudaTable::index_bytes)
      .def_prop_ro("row_bytes", &StoredCudaTable::row_bytes)
      .def(
          "find",
          [](StoredCudaTable& table, Address stream, int64_t num_keys, Address keys,
             Address row_ids) {
            table.Find(Stream(stream), num_keys, At<const int64_t>(keys), At<int64_t>(row_ids));
          },
          WithoutGil())
      .def(
          "insert",
          [](StoredCudaTable& table, Address stream, int64_t num_keys, Address keys, Address rows,
             Address row_ids) {
            table.Insert(Stream(stream), num_keys, At<const int64_t>(keys), At<const float>(rows),
                         At<int64_t>(row_ids));
          },
          WithoutGil())
      .def(
          "gather",
          [](StoredCudaTable& table, Address stream, int64_t num_keys, Address keys, Address rows) {
            table.Gather(Stream(stream), num_keys, At<const int64_t>(keys), At<float>(rows));
          },
          WithoutGil())
      .def(
          "scatter_add",
          [](StoredCudaTable& table, Address stream, int64_t num_keys, Address keys,
             Address values) {
            return table.ScatterAdd(Stream(stream), num_keys, At<const int64_t>(keys),
                                    At<const float>(values));
          },
          WithoutGil())
      .def(
          "assign",
          [](StoredCudaTable& table, Address stream, int64_t num_keys, Address keys,
             Address values) {
            return table.Assign(Stream(stream), num_keys, At<const int64_t>(keys),
                                At<const float>(values));
          },
          WithoutGil())
      .def(
          "erase",
          [](StoredCudaTable& table, Address stream, int64_t num_keys, Address keys) {
            return table.Erase(Stream(stream), num_keys, At<const int64_t>(keys));
          },
          WithoutGil())
      .def(
          "export",
          [](StoredCudaTable& table, Address stream, int64_t room, Address keys, Address rows) {
            return table.Export(Stream(stream), room, At<int64_t>(keys), At<float>(rows));
          },
          WithoutGil())
      .def(
          "clear", [](StoredCudaTable& table, Address stream) { table.Clear(Stream(stream)); },
          WithoutGil());
}
#else
void BindCudaTable(nb::module_& module) {
  module.attr("HAS_CUDA") = false;
  module.attr("WHY_NO_CUDA") = SOK_WHY_NO_CUDA;
}
#endif

}  // namespace sok
