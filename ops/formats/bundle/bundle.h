// SPDX-License-Identifier: Apache-2.0
// Reads the tensors of a checkpoint in TensorFlow's format as streams, whichever ranks wrote them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/formats/bundle/bundle_entry.h"
#include "ops/formats/files/file_system.h"

namespace sok {

std::string IndexPath(const std::string& prefix);
/// Of the data file with the number `shard`.
std::string DataPath(const std::string& prefix, int64_t shard, int64_t num_shards);

/// Reads one checkpoint, <prefix>.index with its data files, for one thread. Verifies checksums,
/// and checks the index before following it: shapes, and sizes of files.
///
/// All methods throw the file system's errors, and kDataLoss for damaged files; both name the
/// tensor and the file.
class Bundle {
 public:
  /// A part of a tensor that was saved as a unit, with its rows, those of its first dimension.
  struct Piece {
    int64_t row_bytes() const { return count > 0 ? entry.num_bytes / count : 0; }

    int64_t first, count;
    std::string name;  // of the tensor
    Extents extents;   // the part of the tensor; no length is kWhole
    BundleEntry entry;
  };

  Bundle(const FileSystem& files, const std::string& prefix);

  const std::string& prefix() const { return prefix_; }
  /// The number of data files.
  int64_t num_shards() const { return num_shards_; }
  /// The names of all tensors with this begin, ascending.
  std::vector<std::string> Names(const std::string& begin = "") const;
  bool Contains(const std::string& name) const { return entries_.count(name) > 0; }
  /// Whether there is a file <prefix><ending>.
  bool HasBeside(const std::string& ending) const { return files_.Exists(prefix_ + ending); }
  /// The checkpoint <prefix><ending>. Throws as the constructor.
  Bundle Beside(const std::string& ending) const { return {files_, prefix_ + ending}; }
  /// The entry of a tensor. Throws kNotFound.
  BundleEntry EntryOf(const std::string& name);

  /// The pieces of a tensor, in the order of the index.
  std::vector<Piece> StoredOf(const std::string& name);
  /// The pieces, ascending, which cover all rows. Throws kInvalidArgument for slices of another
  /// dimension.
  std::vector<Piece> PiecesOf(const std::string& name);

  /// The data file of a piece.
  std::string PathOf(const Piece& piece) const;
  /// Opens it; throws unless the piece is within.
  std::unique_ptr<FileSystem::Reader> Open(const Piece& piece) const;

  /// Identifies a tensor's contents by its shape and checksums.
  std::string SignatureOf(const std::string& name);
  /// All strings of a tensor of them.
  std::vector<std::string> StringsOf(const std::string& name);

  /// Calls use(first, count, data) for rows [first, first + count) of a numeric tensor, ascending,
  /// at most `most` at a time.
  using Use = std::function<void(int64_t first, int64_t count, const char* data)>;
  void ForEachPart(const std::string& name, int64_t most, const Use& use);
  /// The same of one piece.
  void ForEachPartOf(const Piece& piece, int64_t most, const Use& use) const;

  /// Reads a piece, and throws if it is corrupt. Returns false for variants, which have no
  /// checksums.
  bool Verify(const Piece& piece) const;

  /// Throws kDataLoss: the checksum of a piece differs.
  [[noreturn]] void ThrowOfSum(const Piece& piece) const;

 private:
  BundleEntry Parsed(const std::string& name, const std::string& message) const;
  void CheckFile(const std::string& name, const BundleEntry& entry);
  Extents CheckedSlice(const std::string& name, const BundleEntry& whole,
                       const Extents& slice) const;
  std::vector<std::string> StringsIn(const Piece& piece) const;
  template <typename... Parts>
  [[noreturn]] void ThrowDamaged(const Parts&... how) const;

  const FileSystem& files_;
  const std::string prefix_;
  int64_t num_shards_ = 0;
  std::map<std::string, std::string> entries_;  // messages; also those of slices
  std::map<int64_t, int64_t> file_bytes_;       // by shard
};

/// Reads one piece, from any thread. Throws kDataLoss, naming the file, if it ends too early.
class PieceReader {
 public:
  PieceReader(const Bundle& saved, const Bundle::Piece& piece);

  /// Reads its rows [first, first + count).
  void Read(int64_t first, int64_t count, char* to) const;
  int64_t row_bytes() const { return piece_.row_bytes(); }

 private:
  const Bundle::Piece& piece_;
  const std::string path_;
  std::unique_ptr<FileSystem::Reader> file_;
};

/// The checksum of a piece. With the last row, throws kDataLoss, naming the file, if it differs
/// from the stored one.
class PieceSum {
 public:
  PieceSum(const Bundle& saved, const Bundle::Piece& piece) : saved_(saved), piece_(piece) {}

  /// Adds rows [first, first + count), which must follow those of the last call.
  void Add(int64_t first, int64_t count, const char* data);

 private:
  const Bundle& saved_;
  const Bundle::Piece& piece_;
  uint32_t sum_ = 0;
};

}  // namespace sok
