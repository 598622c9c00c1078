// SPDX-License-Identifier: Apache-2.0
// The module sok_compat.engine._engine: takes addresses, calls StoredTable, raises Python's
// exceptions. sok_compat/engine checks values, shapes and dtypes and keeps arrays alive.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "ops/base/error.h"
#include "ops/base/placement.h"
#include "ops/python/engines.h"
#include "ops/python/formats_binding.h"
#include "ops/python/stored_table.h"

namespace nb = nanobind;

namespace sok {
namespace {

/// An address in the memory of a table's engine, or the handle of a stream.
using Address = uintptr_t;

template <typename Value>
Value* At(Address address) {
  return reinterpret_cast<Value*>(address);
}

/// What Python gives for a parameter: the address for a pointer.
template <typename Parameter>
struct Given {
  using Type = Parameter;
  static Parameter As(Type given) { return given; }
};
template <typename Value>
struct Given<Value*> {
  using Type = Address;
  static Value* As(Address given) { return At<Value>(given); }
};

/// A method as Python calls it.
template <typename Result, typename... Parameters>
auto Called(Result (StoredTable::*method)(Parameters...)) {
  return [method](StoredTable& table, typename Given<Parameters>::Type... given) {
    return (table.*method)(Given<Parameters>::As(given)...);
  };
}

TableOptions MakeOptions(const std::string& name, int64_t dim, int64_t capacity,
                         const std::string& kind, float low_or_mean, float high_or_stddev,
                         int64_t seed) {
  TableOptions options;
  options.name = name;
  options.dim = dim;
  options.capacity = capacity;
  options.first_value = {ItemNamed(kFirstValueKinds, "kind", kind).value, low_or_mean,
                         high_or_stddev, FirstValueStream(seed, name)};
  return options;
}

void Construct(StoredTable* self, const TableOptions& options, int gpu, int num_threads) {
  new (self) StoredTable(gpu < 0 ? EngineOfCpu() : EngineOfGpu(gpu), options, num_threads);
}

void BindStoredTable(nb::module_& module) {
  using WithoutGil = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<StoredTable>(module, "StoredTable", "A table; gpu -1 means the CPU.")
      .def("__init__", &Construct, nb::arg("options"), nb::arg("gpu"), nb::arg("num_threads"),
           WithoutGil())
      .def_prop_ro("size", &StoredTable::size, WithoutGil())
      .def_prop_ro("index_bytes", &StoredTable::index_bytes, WithoutGil())
      .def_prop_ro("row_bytes", &StoredTable::row_bytes, WithoutGil())
      .def("find", Called(&StoredTable::Find), WithoutGil())
      .def("insert", Called(&StoredTable::Insert), WithoutGil())
      .def("gather", Called(&StoredTable::Gather), WithoutGil())
      .def("scatter_add", Called(&StoredTable::ScatterAdd), WithoutGil())
      .def("assign", Called(&StoredTable::Assign), WithoutGil())
      .def("erase", Called(&StoredTable::Erase), WithoutGil())
      .def("export", Called(&StoredTable::Export), WithoutGil())
      .def("clear", Called(&StoredTable::Clear), WithoutGil());
}

void MakePlacement(Placement* self, const std::string& kind, int64_t num_ranks, int64_t rank,
                   int64_t owner_rank, int64_t num_keys) {
  const auto& named = ItemNamed(kPlacementKinds, "kind", kind);
  new (self) Placement{named.value, num_ranks, rank, owner_rank, num_keys};
}

void OwnersOf(const Placement& placement, int64_t num_keys, Address keys, Address owners) {
  for (int64_t i = 0; i < num_keys; ++i) {
    At<int64_t>(owners)[i] = placement.Owner(At<const int64_t>(keys)[i]);
  }
}

void BindPlacement(nb::module_& module) {
  nb::class_<Placement>(module, "Placement", "ops/base/placement.h")
      .def("__init__", &MakePlacement, nb::arg("kind"), nb::arg("num_ranks"), nb::arg("rank"),
           nb::arg("owner_rank"), nb::arg("num_keys"))
      .def("owners", &OwnersOf)
      .def("num_rows", &Placement::NumRows)
      .def("range_begin", &Placement::RangeBegin);
}

PyObject* PythonClassOf(ErrorCode code, PyObject* capacity_error) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return PyExc_ValueError;
    case ErrorCode::kFailedPrecondition:
    case ErrorCode::kCuda:
      return PyExc_RuntimeError;
    case ErrorCode::kOutOfCapacity:
      return capacity_error;
    case ErrorCode::kOutOfMemory:
      return PyExc_MemoryError;
    case ErrorCode::kNotFound:
    case ErrorCode::kPermissionDenied:
    case ErrorCode::kNoSpace:
    case ErrorCode::kDataLoss:
    case ErrorCode::kIo:
    case ErrorCode::kAborted:
    case ErrorCode::kCancelled:
    case ErrorCode::kDeadlineExceeded:
      return PyExc_OSError;
  }
  return PyExc_RuntimeError;
}

void TranslateErrors() {
  nb::object capacity_error =
      nb::module_::import_("sok_compat.engine.errors").attr("CapacityError");
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void* capacity_error_class) {
        try {
          std::rethrow_exception(pointer);
        } catch (const Error& error) {
          PyErr_SetString(PythonClassOf(error.code(), static_cast<PyObject*>(capacity_error_class)),
                          error.what());
        }
      },
      capacity_error.release().ptr());
}

}  // namespace

NB_MODULE(SOK_MODULE_NAME, module) {
  nb::set_leak_warnings(
      false);  // a child of fork() exits with objects that threads of its parent held
  TranslateErrors();
  nb::class_<TableOptions>(module, "TableOptions");
  module.def("table_options", &MakeOptions, nb::kw_only(), nb::arg("name"), nb::arg("dim"),
             nb::arg("capacity"), nb::arg("kind"), nb::arg("low_or_mean"),
             nb::arg("high_or_stddev"), nb::arg("seed"));
  BindStoredTable(module);
  BindPlacement(module);
  BindFormats(module);
  module.attr("HAS_CUDA") = bool{SOK_HAS_CUDA};
  module.attr("WHY_NO_CUDA") = SOK_WHY_NO_CUDA;
}

}  // namespace sok
