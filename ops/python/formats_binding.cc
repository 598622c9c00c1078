// SPDX-License-Identifier: Apache-2.0
#include "ops/python/formats_binding.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

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

/// Reads an array in files, in order. With its last rows the checksums have been verified.
class ArrayReader {
 public:
  explicit ArrayReader(int64_t row_bytes) : row_bytes_(row_bytes) {}
  virtual ~ArrayReader() = default;

  int64_t num_rows() const { return parts_.empty() ? 0 : parts_.back().end; }
  /// Reads the next rows, at most `most`; returns how many: 0 at the end.
  virtual int64_t Read(int64_t most, uintptr_t to) = 0;
  /// Reads the rows at these places, in any order and without checksums.
  void Take(int64_t count, uintptr_t places, uintptr_t to) const;

 protected:
  /// Adds the file of the next rows.
  void AddPart(int64_t count, const std::string& path, int64_t offset) {
    parts_.push_back({num_rows(), num_rows() + count, path, offset});
  }

 private:
  static constexpr int64_t kMostSkippedBytes = 4096;  // are read rather than skipped
  static constexpr int64_t kMostBytes = 1 << 20;      // of a read

  struct Part {
    int64_t first, end;  // rows
    std::string path;
    int64_t offset;  // of the first
  };

  const int64_t row_bytes_;
  std::vector<Part> parts_;
};

void ArrayReader::Take(int64_t count, uintptr_t places, uintptr_t to) const {
  const auto* rows = reinterpret_cast<const int64_t*>(places);
  auto* const taken = reinterpret_cast<char*>(to);
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return rows[a] < rows[b]; });
  std::vector<char> span;
  auto next = order.begin();
  for (const Part& part : parts_) {
    std::unique_ptr<FileSystem::Reader> file;
    while (next != order.end() && rows[*next] < part.end) {
      const auto begin = next;
      const int64_t first = rows[*begin];
      int64_t last = first;
      for (; next != order.end() && rows[*next] < part.end; last = rows[*next++]) {
        if ((rows[*next] - last) * row_bytes_ > kMostSkippedBytes) break;
        if ((rows[*next] - first) * row_bytes_ > kMostBytes) break;
      }
      span.resize(static_cast<size_t>((last + 1 - first) * row_bytes_));
      if (!file) file = FileSystem::Local().Open(part.path);
      const int64_t at = part.offset + (first - part.first) * row_bytes_;
      if (file->Read(at, span.size(), span.data()) < span.size())
        Throw(ErrorCode::kDataLoss, part.path, " ends within the table");
      for (auto each = begin; each != next; ++each) {
        std::copy_n(span.data() + (rows[*each] - first) * row_bytes_, row_bytes_,
                    taken + *each * row_bytes_);
      }
    }
  }
}

/// A tensor of a checkpoint.
class TensorReader : public ArrayReader {
 public:
  TensorReader(Bundle& saved, const std::string& name)
      : TensorReader(saved, saved.PiecesOf(name)) {}

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
  TensorReader(Bundle& saved, std::vector<Bundle::Piece> pieces)
      : ArrayReader(pieces.empty() ? 0 : pieces[0].row_bytes()),
        saved_(saved),
        pieces_(std::move(pieces)) {
    for (const Bundle::Piece& piece : pieces_)
      AddPart(piece.count, saved.PathOf(piece), piece.entry.offset);
  }

  Bundle& saved_;
  const std::vector<Bundle::Piece> pieces_;
  size_t number_ = 0;
  int64_t next_ = 0;  // row of the piece
  std::unique_ptr<PieceReader> reader_;
  std::unique_ptr<PieceSum> sum_;
};

int64_t RowBytes(const StoredColumn& column) { return column.width * BytesOf(column.type); }

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
      columns.append(nb::make_tuple(column.path, DtypeName(column.type), column.num_rows,
                                    column.width, column.num_rows * RowBytes(column),
                                    column.noted != nullptr));
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
      : ColumnReader(std::make_unique<OpenedPair>(folder, name, are_uint32), column) {}

  int64_t Read(int64_t most, uintptr_t to) override {
    DumpSource& source = files_->source();
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
  ColumnReader(std::unique_ptr<OpenedPair> files, size_t column)
      : ArrayReader(RowBytes(files->source().stored(column))),
        files_(std::move(files)),
        column_(column) {
    const StoredColumn& stored = files_->source().stored(column);
    AddPart(stored.num_rows, stored.path, stored.header_bytes);
  }

  const std::unique_ptr<OpenedPair> files_;
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

/// [(path, bytes)] of those that are not empty, in the order of their rows.
nb::list PiecesOf(Bundle& saved, const std::string& name) {
  nb::list pieces;
  for (const Bundle::Piece& piece : saved.PiecesOf(name)) {
    if (piece.entry.num_bytes == 0) continue;
    pieces.append(nb::make_tuple(saved.PathOf(piece), piece.entry.num_bytes));
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
  nb::class_<ArrayReader>(module, "ArrayReader")
      .def_prop_ro("num_rows", &ArrayReader::num_rows)
      .def("read", &ArrayReader::Read, WithoutGil())
      .def("take", &ArrayReader::Take, WithoutGil());
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
