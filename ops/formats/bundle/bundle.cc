// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/bundle/bundle.h"

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <utility>

#include "ops/base/error.h"
#include "ops/formats/bundle/sorted_table.h"
#include "ops/formats/bundle/wire.h"
#include "ops/formats/files/checkpoint_progress.h"
#include "ops/formats/files/crc32c.h"

namespace sok {
namespace {

constexpr int64_t kVerifiedBytes = 4 << 20;  // read at a time

/// As rows of one byte each.
Bundle::Piece AsBytes(Bundle::Piece piece) {
  piece.first = 0;
  piece.count = piece.entry.num_bytes;
  return piece;
}

}  // namespace

std::string IndexPath(const std::string& prefix) { return prefix + ".index"; }

std::string DataPath(const std::string& prefix, int64_t shard, int64_t num_shards) {
  char ending[64];
  std::snprintf(ending, sizeof(ending), ".data-%05lld-of-%05lld", static_cast<long long>(shard),
                static_cast<long long>(num_shards));
  return prefix + ending;
}

template <typename... Parts>
void Bundle::ThrowDamaged(const Parts&... how) const {
  Throw(ErrorCode::kDataLoss, IndexPath(prefix_), " is not as it was written: ", how...,
        "; restore an earlier checkpoint");
}

Bundle::Bundle(const FileSystem& files, const std::string& prefix)
    : files_(files), prefix_(prefix), entries_(ReadSortedTable(files, IndexPath(prefix))) {
  const auto header = entries_.find("");
  if (header == entries_.end()) ThrowDamaged("it has no header");
  try {
    num_shards_ = NumShardsIn(header->second);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kDataLoss) ThrowDamaged("its header ", error.what());
    Throw(error.code(), IndexPath(prefix_), " ", error.what());
  }
  entries_.erase(header);
}

std::vector<std::string> Bundle::Names(const std::string& begin) const {
  std::vector<std::string> names;
  for (auto at = entries_.lower_bound(begin); at != entries_.end(); ++at) {
    if (at->first.compare(0, begin.size(), begin) != 0) break;
    if (at->first.front() != '\0') names.push_back(at->first);  // otherwise it names a slice
  }
  return names;
}

BundleEntry Bundle::EntryOf(const std::string& name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    Throw(ErrorCode::kNotFound, "the checkpoint ", prefix_, " has no tensor ", name,
          "; tf.train.list_variables lists its tensors");
  }
  BundleEntry entry = Parsed(name, found->second);
  CheckFile(name, entry);
  return entry;
}

BundleEntry Bundle::Parsed(const std::string& name, const std::string& message) const {
  try {
    return BundleEntry(message);
  } catch (const Error& error) {
    ThrowDamaged("the entry of ", name, ": ", error.what());
  }
}

/// Call before the entry is followed or memory allocated for it.
void Bundle::CheckFile(const std::string& name, const BundleEntry& entry) {
  if (!entry.slices.empty() || entry.num_bytes == 0) return;
  if (entry.shard < 0 || entry.shard >= num_shards_)
    ThrowDamaged(name, " is in data file ", entry.shard, " of ", num_shards_);
  const std::string path = DataPath(prefix_, entry.shard, num_shards_);
  const auto [known, is_new] = file_bytes_.emplace(entry.shard, 0);
  if (is_new) known->second = files_.Size(path);
  const int64_t left = known->second - entry.num_bytes;
  if (entry.offset >= 0 && entry.offset <= left) return;
  Throw(ErrorCode::kDataLoss, path, " is not as it was written: it ends within ", name);
}

/// The slice with the lengths of whole dimensions.
Extents Bundle::CheckedSlice(const std::string& name, const BundleEntry& whole,
                             const Extents& slice) const {
  Extents found = slice;
  bool fits = slice.size() == whole.shape.size() && !slice.empty();
  for (size_t d = 0; fits && d < slice.size(); ++d) {
    const int64_t size = whole.shape[d];
    if (slice[d].length == Extent::kWhole) found[d].length = size;
    const auto [start, length] = found[d];
    fits = start >= 0 && length >= 0 && length <= size && start <= size - length;
  }
  if (fits) return found;
  ThrowDamaged(name, " has a slice that is not within");
}

std::vector<Bundle::Piece> Bundle::StoredOf(const std::string& name) {
  BundleEntry whole = EntryOf(name);
  const auto piece_at = [&](Extents extents, BundleEntry entry) {
    const Extent rows = extents.empty() ? Extent{0, 1} : extents[0];
    return Piece{rows.start, rows.length, name, std::move(extents), std::move(entry)};
  };
  if (whole.slices.empty()) {
    Extents extents;
    for (const int64_t size : whole.shape) extents.push_back({0, size});
    return {piece_at(std::move(extents), std::move(whole))};
  }
  std::vector<Piece> found;
  for (const Extents& slice : whole.slices) {
    Extents extents = CheckedSlice(name, whole, slice);
    const auto own = entries_.find(SliceName(name, slice));
    if (own == entries_.end()) ThrowDamaged("a slice of ", name, " has no entry");
    BundleEntry entry = Parsed("a slice of " + name, own->second);
    CheckFile(name, entry);
    std::vector<int64_t> shape;
    for (const Extent& extent : extents) shape.push_back(extent.length);
    if (!entry.slices.empty() || entry.dtype != whole.dtype || entry.shape != shape)
      ThrowDamaged("a slice of ", name, " has another dtype or shape");
    found.push_back(piece_at(std::move(extents), std::move(entry)));
  }
  return found;
}

std::vector<Bundle::Piece> Bundle::PiecesOf(const std::string& name) {
  const std::vector<int64_t> shape = EntryOf(name).shape;
  std::vector<Piece> pieces = StoredOf(name);
  for (const Piece& piece : pieces) {
    for (size_t d = 1; d < shape.size(); ++d) {
      if (piece.extents[d].length == shape[d]) continue;
      Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", prefix_,
            " was saved in slices along a dimension other than its first");
    }
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.first < b.first; });
  int64_t next = 0;
  for (const Piece& piece : pieces) {
    if (piece.first != next) break;
    next += piece.count;
  }
  const int64_t num_rows = shape.empty() ? 1 : shape[0];
  if (next == num_rows) return pieces;
  Throw(ErrorCode::kDataLoss, IndexPath(prefix_), " has no slice of ", name, " for row ", next,
        " of ", num_rows);
}

std::string Bundle::PathOf(const Piece& piece) const {
  return DataPath(prefix_, piece.entry.shard, num_shards_);
}

std::unique_ptr<FileSystem::Reader> Bundle::Open(const Piece& piece) const {
  return files_.Open(PathOf(piece));
}

std::string Bundle::SignatureOf(const std::string& name) {
  std::ostringstream text;
  for (const Piece& piece : StoredOf(name)) {
    for (const Extent& extent : piece.extents) text << extent.start << '+' << extent.length << ' ';
    text << piece.entry.type().name << " with the checksum " << piece.entry.sum << "; ";
  }
  return text.str();
}

std::vector<std::string> Bundle::StringsOf(const std::string& name) {
  std::vector<std::string> strings;
  for (const Piece& piece : PiecesOf(name)) {
    for (std::string& each : StringsIn(piece)) strings.push_back(std::move(each));
  }
  return strings;
}

/// In the file: the strings' lengths, a checksum of these, and the bytes. The tensor's checksum
/// covers lengths as 4 bytes, or as 8 if they need it.
std::vector<std::string> Bundle::StringsIn(const Piece& piece) const {
  const Piece bytes = AsBytes(piece);
  std::string data(static_cast<size_t>(bytes.count), ' ');
  PieceReader(*this, bytes).Read(0, bytes.count, data.data());
  WireReader reader(data);
  std::vector<uint64_t> lengths(static_cast<size_t>(piece.entry.num_elements()));
  std::vector<std::string> strings;
  if (lengths.empty()) return strings;
  uint32_t sum = 0;
  try {
    for (uint64_t& length : lengths) {
      length = reader.Varint();
      sum = Crc32c(sum, &length, length >> 32 ? 8 : 4);
    }
    sum = Crc32c(sum, reader.rest().data(), reader.rest().size());
    reader.Fixed(sizeof(uint32_t));
    for (const uint64_t length : lengths) strings.emplace_back(reader.Bytes(length));
  } catch (const Error&) {
    ThrowOfSum(piece);
  }
  if (!reader.at_end() || sum != piece.entry.sum) ThrowOfSum(piece);
  return strings;
}

void Bundle::ForEachPart(const std::string& name, int64_t most, const Use& use) {
  for (const Piece& piece : PiecesOf(name)) ForEachPartOf(piece, most, use);
}

void Bundle::ForEachPartOf(const Piece& piece, int64_t most, const Use& use) const {
  const PieceReader reader(*this, piece);
  PieceSum sum(*this, piece);
  std::string data(static_cast<size_t>(std::min(most, piece.count) * reader.row_bytes()), ' ');
  for (int64_t first = 0; first < piece.count; first += most) {
    const int64_t count = std::min(most, piece.count - first);
    reader.Read(first, count, data.data());
    sum.Add(first, count, data.data());
    use(piece.first + first, count, data.data());
  }
}

bool Bundle::Verify(const Piece& piece) const {
  if (piece.entry.type().num_bytes > 0) {
    ForEachPartOf(AsBytes(piece), kVerifiedBytes, [](int64_t, int64_t, const char*) {});
    return true;
  }
  const bool has_strings = std::string(piece.entry.type().name) == "string";
  if (has_strings) StringsIn(piece);
  return has_strings;
}

void Bundle::ThrowOfSum(const Piece& piece) const {
  Throw(ErrorCode::kDataLoss, PathOf(piece), " is not as it was written: the CRC-32C of ",
        piece.name, ", ", piece.entry.num_bytes, " bytes from ", piece.entry.offset,
        " on, differs from the stored one; restore an earlier checkpoint");
}

PieceReader::PieceReader(const Bundle& saved, const Bundle::Piece& piece)
    : piece_(piece), path_(saved.PathOf(piece)) {
  if (piece.entry.num_bytes > 0) file_ = saved.Open(piece);
}

void PieceReader::Read(int64_t first, int64_t count, char* to) const {
  const auto num_bytes = static_cast<size_t>(count * row_bytes());
  if (num_bytes == 0) return;
  if (file_->Read(piece_.entry.offset + first * row_bytes(), num_bytes, to) < num_bytes)
    Throw(ErrorCode::kDataLoss, path_, " is not as it was written: it ends within ", piece_.name);
  restored_bytes += static_cast<int64_t>(num_bytes);
}

void PieceSum::Add(int64_t first, int64_t count, const char* data) {
  if (piece_.entry.num_bytes == 0) return;
  sum_ = Crc32c(sum_, data, static_cast<size_t>(count * piece_.row_bytes()));
  if (first + count == piece_.count && sum_ != piece_.entry.sum) saved_.ThrowOfSum(piece_);
}

}  // namespace sok
