// SPDX-License-Identifier: Apache-2.0
// The module sok_compat.engine._engine: NumPy arrays in, StoredTable calls, Python's exceptions
// out. Values, shapes and dtypes are explained to the user in sok_compat/engine/hash_table.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <utility>

#include "ops/base/error.h"
#include "ops/base/hash.h"
#include "ops/python/cuda_bindings.h"
#include "ops/python/stored_table.h"

namespace nb = nanobind;

namespace sok {
namespace {

using Keys = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using RowIdsOut = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using RowsOut = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

int64_t Size(const Keys& keys) { return static_cast<int64_t>(keys.shape(0)); }

/// Runs a call that may take long while other Python threads go on.
template <typename Call>
auto WithoutGil(Call call) {
  nb::gil_scoped_release release;
  return call();
}

/// What the Python class promises; a last guard against reading outside of an array.
void CheckShape(bool is_right) {
  if (!is_right) Throw(ErrorCode::kInvalidArgument, "an array has the wrong shape");
}

template <typename Matrix>
void CheckMatrix(const StoredTable& table, const Keys& keys, const Matrix& matrix) {
  CheckShape(matrix.shape(0) == keys.shape(0) &&
             matrix.shape(1) == static_cast<size_t>(table.dim()));
}

/// An array that owns the vector's memory.
template <typename Value, typename... Lengths>
nb::ndarray<nb::numpy, Value> ToArray(std::vector<Value> values, Lengths... lengths) {
  auto* owned = new std::vector<Value>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<Value>*>(p); });
  return nb::ndarray<nb::numpy, Value>(owned->data(), {static_cast<size_t>(lengths)...}, owner);
}

void Construct(StoredTable* self, const TableOptions& options, int num_threads) {
  new (self) StoredTable(options, num_threads);
}

TableOptions MakeOptions(const std::string& name, int64_t dim, int64_t capacity,
                         FirstValue::Kind kind, float low_or_mean, float high_or_stddev,
                         int64_t seed) {
  TableOptions options;
  options.name = name;
  options.dim = dim;
  options.capacity = capacity;
  options.first_value = {kind, low_or_mean, high_or_stddev, FirstValueStream(seed, name)};
  return options;
}

void Find(StoredTable& table, const Keys& keys, const RowIdsOut& row_ids) {
  CheckShape(row_ids.shape(0) == keys.shape(0));
  WithoutGil([&] { table.Find(Size(keys), keys.data(), row_ids.data()); });
}

void Insert(StoredTable& table, const Keys& keys, const std::optional<Rows>& rows,
            const RowIdsOut& row_ids) {
  CheckShape(row_ids.shape(0) == keys.shape(0));
  if (rows) CheckMatrix(table, keys, *rows);
  WithoutGil([&] {
    table.Insert(Size(keys), keys.data(), rows ? rows->data() : nullptr, row_ids.data());
  });
}

void Gather(StoredTable& table, const Keys& keys, const RowsOut& rows) {
  CheckMatrix(table, keys, rows);
  WithoutGil([&] { table.Gather(Size(keys), keys.data(), rows.data()); });
}

int64_t ScatterAdd(StoredTable& table, const Keys& keys, const Rows& values) {
  CheckMatrix(table, keys, values);
  return WithoutGil([&] { return table.ScatterAdd(Size(keys), keys.data(), values.data()); });
}

int64_t Assign(StoredTable& table, const Keys& keys, const Rows& values) {
  CheckMatrix(table, keys, values);
  return WithoutGil([&] { return table.Assign(Size(keys), keys.data(), values.data()); });
}

int64_t Erase(StoredTable& table, const Keys& keys) {
  return WithoutGil([&] { return table.Erase(Size(keys), keys.data()); });
}

nb::tuple Export(StoredTable& table) {
  StoredTable::Contents contents = WithoutGil([&] { return table.Export(); });
  const size_t size = contents.keys.size();
  return nb::make_tuple(ToArray(std::move(contents.keys), size),
                        ToArray(std::move(contents.rows), size, table.dim()));
}

nb::ndarray<nb::numpy, uint64_t> HashKeys(const Keys& keys) {
  std::vector<uint64_t> hashes(keys.shape(0));
  for (size_t i = 0; i < hashes.size(); ++i) hashes[i] = HashKey(keys.data()[i]);
  const size_t size = hashes.size();
  return ToArray(std::move(hashes), size);
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
    case ErrorCode::kIo:
    case ErrorCode::kAborted:
      return PyExc_OSError;
  }
  return PyExc_RuntimeError;
}

void TranslateErrors(nb::module_& module) {
  PyObject* capacity_error = PyErr_NewExceptionWithDoc(
      "sok_compat.engine.CapacityError",
      "A table has no room for all new keys of a call; it is as it was before the call.",
      PyExc_RuntimeError, nullptr);
  module.attr("CapacityError") = nb::steal(capacity_error);
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void* capacity_error_class) {
        try {
          std::rethrow_exception(pointer);
        } catch (const Error& error) {
          PyErr_SetString(PythonClassOf(error.code(), static_cast<PyObject*>(capacity_error_class)),
                          error.what());
        }
      },
      capacity_error);
}

}  // namespace

NB_MODULE(_engine, module) {
  TranslateErrors(module);
  nb::enum_<FirstValue::Kind>(module, "FirstValueKind")
      .value("UNIFORM", FirstValue::Kind::kUniform)
      .value("NORMAL", FirstValue::Kind::kNormal)
      .value("TRUNCATED_NORMAL", FirstValue::Kind::kTruncatedNormal)
      .value("CONSTANT", FirstValue::Kind::kConstant);
  nb::class_<TableOptions>(module, "TableOptions");
  module.def("table_options", &MakeOptions, nb::kw_only(), nb::arg("name"), nb::arg("dim"),
             nb::arg("capacity"), nb::arg("kind"), nb::arg("low_or_mean"),
             nb::arg("high_or_stddev"), nb::arg("seed"));
  nb::class_<StoredTable>(module, "StoredTable")
      .def("__init__", &Construct, nb::arg("options"), nb::arg("num_threads"))
      .def_prop_ro("size", &StoredTable::size)
      .def_prop_ro("index_bytes", &StoredTable::index_bytes)
      .def_prop_ro("row_bytes", &StoredTable::row_bytes)
      .def("find", &Find)
      .def("insert", &Insert, nb::arg(), nb::arg().none(), nb::arg())
      .def("gather", &Gather)
      .def("scatter_add", &ScatterAdd)
      .def("assign", &Assign)
      .def("erase", &Erase)
      .def("export", &Export)
      .def("clear", [](StoredTable& table) { WithoutGil([&] { table.Clear(); }); });
  BindCudaTable(module);
  module.def("hash_keys", &HashKeys, "The hashes of int64 keys, for tests that want collisions.");
}

}  // namespace sok
