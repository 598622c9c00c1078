// SPDX-License-Identifier: Apache-2.0
#include "ops/python/formats_binding.h"

#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include "ops/formats/dumps/dump_source.h"
#include "ops/formats/dumps/dump_writer.h"
#include "ops/formats/dumps/headed_dump.h"
#include "ops/formats/dumps/pair_dump.h"
#include "ops/formats/files/crc32c.h"

namespace nb = nanobind;

namespace sok {
namespace {

StoredType KeyType(bool are_uint32) {
  return are_uint32 ? StoredType::kUint32 : StoredType::kInt64;
}

/// [(path, dtype, rows, width, bytes, CRC-32C or None)] of the keys and the rows.
nb::list ColumnsOfPair(const std::string& folder, const std::string& name, bool are_uint32) {
  const PairDump format(folder, name, KeyType(are_uint32), /*dim=*/0);
  const DumpSource source(FileSystem::Local(), format);
  nb::list columns;
  for (size_t i = 0; i < source.num_columns(); ++i) {
    const StoredColumn& column = source.stored(i);
    const int64_t num_bytes = column.num_rows * column.width * BytesOf(column.type);
    const nb::object sum = column.noted == nullptr ? nb::none() : nb::cast(column.noted->sum);
    columns.append(nb::make_tuple(column.path, DtypeName(column.type), column.num_rows,
                                  column.width, num_bytes, sum));
  }
  return columns;
}

/// Writes the dump of a table.
class PairDumpWriter {
 public:
  PairDumpWriter(const std::string& folder, const std::string& name, bool are_uint32) {
    auto format = std::make_unique<PairDump>(folder, name, KeyType(are_uint32), /*dim=*/0);
    writer_ = std::make_unique<DumpWriter>(FileSystem::Local(), FolderOf(format->note()));
    sink_ = &writer_->Add(std::move(format));
  }
  void Append(int64_t num_rows, int64_t dim, uintptr_t keys, uintptr_t rows) {
    sink_->Append(0, num_rows, 1, reinterpret_cast<const char*>(keys));
    sink_->Append(1, num_rows, dim, reinterpret_cast<const char*>(rows));
  }
  void Commit() { writer_->Commit(); }
  void Close() { writer_.reset(); }

 private:
  std::unique_ptr<DumpWriter> writer_;
  RowsSink* sink_ = nullptr;
};

}  // namespace

void BindFormats(nb::module_& module) {
  using WithoutGil = nb::call_guard<nb::gil_scoped_release>;
  module.def(
      "crc32c",
      [](uint32_t earlier, uintptr_t data, size_t num_bytes) {
        return Crc32c(earlier, reinterpret_cast<const void*>(data), num_bytes);
      },
      WithoutGil());
  module.def("unmasked_crc32c", &UnmaskedCrc32c);
  module.def("stem_of_headed_dump", &HeadedDump::StemOf);
  module.def("columns_of_pair", &ColumnsOfPair);
  nb::class_<PairDumpWriter>(module, "PairDumpWriter")
      .def(nb::init<const std::string&, const std::string&, bool>())
      .def("append", &PairDumpWriter::Append, WithoutGil())
      .def("commit", &PairDumpWriter::Commit, WithoutGil())
      .def("close", &PairDumpWriter::Close);
}

}  // namespace sok
