// SPDX-License-Identifier: Apache-2.0
#include "ops/python/formats_binding.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "ops/base/error.h"
#include "ops/formats/bundle/series.h"
#include "ops/formats/dumps/dump_source.h"
#include "ops/formats/dumps/dump_writer.h"
#include "ops/formats/dumps/headed_dump.h"
#include "ops/formats/dumps/pair_dump.h"
#include "ops/formats/files/crc32c.h"
#include "ops/history/waiting_keys.h"

namespace nb = nanobind;

namespace sok {
namespace {

StoredType KeyType(bool are_uint32) {
  return are_uint32 ? StoredType::kUint32 : StoredType::kInt64;
}

/// A table's pair of files.
class OpenedPair {
 public:
  OpenedPair(const std::string& folder, const std::string& name, bool are_uint32)
      : format_(folder, name, KeyType(are_uint32), /*dim=*/0),
        source_(FileSystem::Local(), format_) {}

  /// [(path, dtype, rows, width, bytes before the rows, whether it has a checksum)] of the keys and
  /// the rows.
  nb::list Columns() const {
    nb::list columns;
    for (size_t i = 0; i < source_.num_columns(); ++i) {
      const StoredColumn& column = source_.stored(i);
      columns.append(nb::make_tuple(column.path, DtypeName(column.type), column.num_rows,
                                    column.width, column.header_bytes, column.noted != nullptr));
    }
    return columns;
  }
  /// Reads all files, and throws for a checksum that does not match.
  void Verify() {
    source_.Rewind();
    source_.ForEachBlock([](const RowsBlock&) {});
  }

 private:
  const PairDump format_;
  DumpSource source_;
};

/// Writes the dump of a table.
class PairDumpWriter {
 public:
  PairDumpWriter(const std::string& folder, const std::string& name, bool are_uint32) {
    auto format = std::make_unique<PairDump>(folder, name, KeyType(are_uint32), /*dim=*/0);
    writer_ = std::make_unique<DumpWriter>(FileSystem::Local(), FolderOf(format->note()));
    sink_ = &writer_->Add(std::move(format));
  }
  void Append(int64_t num_rows, int64_t dim, uintptr_t keys, uintptr_t rows) {
    const size_t row_bytes[]{sizeof(int64_t), static_cast<size_t>(dim) * sizeof(float)};
    const uintptr_t data[]{keys, rows};
    for (size_t column = 0; column < 2; ++column) {
      const size_t num_bytes = static_cast<size_t>(num_rows) * row_bytes[column];
      sink_->Begin(column, column == 0 ? 1 : dim);
      std::memcpy(sink_->Buffer(num_bytes), reinterpret_cast<const void*>(data[column]), num_bytes);
      sink_->Append(num_bytes);
    }
  }
  void Commit() { writer_->Commit(); }
  void Close() { writer_.reset(); }

 private:
  std::unique_ptr<DumpWriter> writer_;
  RowsSink* sink_ = nullptr;
};

/// [(name, dtype, shape, bytes)], after checks of all entries.
nb::list TensorsOf(Bundle& saved) {
  nb::list tensors;
  for (const std::string& name : saved.Names()) {
    const BundleEntry entry = saved.EntryOf(name);
    nb::list shape;
    for (const int64_t size : entry.shape) shape.append(size);
    int64_t num_bytes = 0;
    for (const Bundle::Piece& piece : saved.StoredOf(name)) num_bytes += piece.entry.num_bytes;
    tensors.append(nb::make_tuple(name, entry.type().name, nb::tuple(shape), num_bytes));
  }
  return tensors;
}

/// [(path, first byte, bytes)] of those that are not empty, in the order of their rows.
nb::list PiecesOf(Bundle& saved, const std::string& name) {
  nb::list pieces;
  for (const Bundle::Piece& piece : saved.PiecesOf(name)) {
    if (piece.entry.num_bytes == 0) continue;
    const BundleEntry& entry = piece.entry;
    pieces.append(nb::make_tuple(saved.PathOf(piece), entry.offset, entry.num_bytes));
  }
  return pieces;
}

bool VerifyAll(Bundle& saved, const std::string& name) {
  bool has_sums = true;
  for (const Bundle::Piece& piece : saved.StoredOf(name)) has_sums &= saved.Verify(piece);
  return has_sums;
}

/// (id, base's id or None), or None.
nb::object SeriesOf(Bundle& saved) {
  const auto found = CheckpointInSeries::In(saved);
  if (!found) return nb::none();
  return nb::make_tuple(found->id, found->base ? nb::cast(found->base->id) : nb::none());
}

void BindBundle(nb::module_& module) {
  nb::list key_numbers;
  for (const KeyNumber& number : kKeyNumbers) key_numbers.append(number.name);
  module.attr("KEY_NUMBERS") = nb::tuple(key_numbers);
  module.attr("SERIES") = CheckpointInSeries::kTensor;
  module.attr("INCREMENT") = kIncrementEnding;
  module.attr("GONE") = kGoneEnding;
  module.attr("GONE_OF_BUCKETS") = std::string(kIncrementEnding) + kGoneOfBuckets;
  module.attr("SEED_OF_BUCKETS") = kSeedOfBuckets;
  nb::class_<Bundle>(module, "Bundle")
      .def("__init__",
           [](Bundle* self, const std::string& prefix) {
             new (self) Bundle(FileSystem::Local(), prefix);
           })
      .def_prop_ro("num_shards", &Bundle::num_shards)
      .def("tensors", &TensorsOf)
      .def("pieces", &PiecesOf)
      .def("signature", &Bundle::SignatureOf)
      .def("verify", &VerifyAll, nb::call_guard<nb::gil_scoped_release>())
      .def("series", &SeriesOf);
  module.def("chain_of", [](const std::string& prefix) {
    nb::list chain;
    for (const std::string& each : ChainOf(FileSystem::Local(), prefix)) chain.append(each);
    return chain;
  });
}

}  // namespace

void BindFormats(nb::module_& module) {
  BindBundle(module);
  using WithoutGil = nb::call_guard<nb::gil_scoped_release>;
  module.def(
      "crc32c",
      [](uint32_t earlier, uintptr_t data, size_t num_bytes) {
        return Crc32c(earlier, reinterpret_cast<const void*>(data), num_bytes);
      },
      WithoutGil());
  module.def("stem_of_headed_dump", &HeadedDump::StemOf);
  nb::class_<OpenedPair>(module, "Pair")
      .def(nb::init<const std::string&, const std::string&, bool>())
      .def("columns", &OpenedPair::Columns)
      .def("verify", &OpenedPair::Verify, WithoutGil());
  nb::class_<PairDumpWriter>(module, "PairDumpWriter")
      .def(nb::init<const std::string&, const std::string&, bool>())
      .def("append", &PairDumpWriter::Append, WithoutGil())
      .def("commit", &PairDumpWriter::Commit, WithoutGil())
      .def("close", &PairDumpWriter::Close);
}

}  // namespace sok
