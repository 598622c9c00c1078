// SPDX-License-Identifier: Apache-2.0
#include "ops/python/formats_binding.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

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

/// Reads an array of files in order. With its last rows the checksums have been verified.
class ArrayReader {
 public:
  virtual ~ArrayReader() = default;
  /// Reads the next rows, at most `most`; returns how many: 0 at the end.
  virtual int64_t Read(int64_t most, uintptr_t to) = 0;
};

/// A tensor of a checkpoint.
class TensorReader : public ArrayReader {
 public:
  TensorReader(Bundle& saved, const std::string& name)
      : saved_(saved), pieces_(saved.PiecesOf(name)) {}

  int64_t Read(int64_t most, uintptr_t to) override {
    for (; number_ < pieces_.size(); ++number_, next_ = 0) {
      const Bundle::Piece& piece = pieces_[number_];
      if (next_ == piece.count) continue;
      if (next_ == 0) {
        reader_ = std::make_unique<PieceReader>(saved_, piece);
        sum_ = std::make_unique<PieceSum>(saved_, piece);
      }
      const int64_t count = std::min(most, piece.count - next_);
      auto* rows = reinterpret_cast<char*>(to);
      reader_->Read(next_, count, rows);
      sum_->Add(next_, count, rows);
      next_ += count;
      return count;
    }
    return 0;
  }

 private:
  Bundle& saved_;
  const std::vector<Bundle::Piece> pieces_;
  size_t number_ = 0;
  int64_t next_ = 0;  // row of the piece
  std::unique_ptr<PieceReader> reader_;
  std::unique_ptr<PieceSum> sum_;
};

/// A table's pair of files.
class OpenedPair {
 public:
  OpenedPair(const std::string& folder, const std::string& name, bool are_uint32)
      : format_(folder, name, KeyType(are_uint32), /*dim=*/0),
        source_(FileSystem::Local(), format_) {}

  /// [(path, dtype, rows, width, bytes, whether it has a checksum)] of the keys and the rows.
  nb::list Columns() const {
    nb::list columns;
    for (size_t i = 0; i < source_.num_columns(); ++i) {
      const StoredColumn& column = source_.stored(i);
      columns.append(nb::make_tuple(
          column.path, DtypeName(column.type), column.num_rows, column.width,
          column.num_rows * column.width * BytesOf(column.type), column.noted != nullptr));
    }
    return columns;
  }
  DumpSource& source() { return source_; }

 private:
  const PairDump format_;
  DumpSource source_;
};

/// One of the pair, as it is stored.
class ColumnReader : public ArrayReader {
 public:
  ColumnReader(const std::string& folder, const std::string& name, bool are_uint32, size_t column)
      : files_(folder, name, are_uint32), column_(column) {}

  int64_t Read(int64_t most, uintptr_t to) override {
    DumpSource& source = files_.source();
    const int64_t count = std::min(most, source.num_keys() - next_);
    if (count == 0) return 0;
    auto* rows = reinterpret_cast<char*>(to);
    if (column_ > 0) {
      source.Read(column_, next_, count, rows);
    } else {
      keys_.resize(static_cast<size_t>(count));
      source.Read(0, next_, count, reinterpret_cast<char*>(keys_.data()));
      KeysToStored(source.stored(0).type, count, keys_.data(), rows);
    }
    next_ += count;
    return count;
  }

 private:
  OpenedPair files_;
  const size_t column_;
  int64_t next_ = 0;
  std::vector<int64_t> keys_;
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
      std::memcpy(sink_->Room(num_bytes), reinterpret_cast<const void*>(data[column]), num_bytes);
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

/// [(path, offset, bytes)] of those that are not empty, in the order of their rows.
nb::list PiecesOf(Bundle& saved, const std::string& name) {
  nb::list pieces;
  for (const Bundle::Piece& piece : saved.PiecesOf(name)) {
    const BundleEntry& entry = piece.entry;
    if (entry.num_bytes == 0) continue;
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
  nb::class_<ArrayReader>(module, "ArrayReader").def("read", &ArrayReader::Read, WithoutGil());
  nb::class_<TensorReader, ArrayReader>(module, "TensorReader")
      .def(nb::init<Bundle&, const std::string&>(), nb::keep_alive<1, 2>());
  nb::class_<ColumnReader, ArrayReader>(module, "ColumnReader")
      .def(nb::init<const std::string&, const std::string&, bool, size_t>());
  nb::class_<OpenedPair>(module, "Pair")
      .def(nb::init<const std::string&, const std::string&, bool>())
      .def("columns", &OpenedPair::Columns);
  nb::class_<PairDumpWriter>(module, "PairDumpWriter")
      .def(nb::init<const std::string&, const std::string&, bool>())
      .def("append", &PairDumpWriter::Append, WithoutGil())
      .def("commit", &PairDumpWriter::Commit, WithoutGil())
      .def("close", &PairDumpWriter::Close);
}

}  // namespace sok
