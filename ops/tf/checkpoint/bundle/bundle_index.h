// SPDX-License-Identifier: Apache-2.0
// The index of a checkpoint in TensorFlow's format: its tensors, and where they are.
#ifndef SOK_OPS_TF_CHECKPOINT_BUNDLE_BUNDLE_INDEX_H_
#define SOK_OPS_TF_CHECKPOINT_BUNDLE_BUNDLE_INDEX_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tensorflow/core/lib/io/iterator.h"
#include "tensorflow/core/lib/io/table.h"
#include "tensorflow/core/platform/env.h"

namespace sok {

/// {name: BundleEntryProto as text}, in the order of the file.
using BundleEntries = std::map<std::string, std::string>;

/// Lookups in <prefix>.index. TensorFlow's own BundleReader mistakes a corrupt block for the end,
/// and aborts the process for a corrupt size. For one thread.
///
/// All methods throw the file system's errors, and kDataLoss for a file that is no index; both name
/// the file.
class BundleIndex {
 public:
  BundleIndex(tensorflow::Env* env, const std::string& prefix);

  /// The number of data files.
  int num_shards() const { return num_shards_; }
  /// BundleEntryProto as text; nullopt if there is no such tensor.
  std::optional<std::string> Find(const std::string& name);
  /// Calls use(name, entry) for all names with the prefix, ascending, except for the header.
  using Use = std::function<void(const std::string& name, const std::string& entry)>;
  void ForEach(const std::string& begin, const Use& use);

 private:
  void ReadHeader();
  template <typename Body>
  void Checked(const Body& body) const;
  [[noreturn]] void ThrowDamaged(const std::string& how) const;

  const std::string path_;
  std::unique_ptr<tensorflow::RandomAccessFile> file_;
  std::unique_ptr<tensorflow::table::Table> table_;
  std::unique_ptr<tensorflow::table::Iterator> at_;
  int num_shards_ = 0;
};

/// All entries of <prefix>.index.
BundleEntries ReadIndex(tensorflow::Env* env, const std::string& prefix);

/// Writes <prefix>.index, of a checkpoint whose data is in `num_shards` files.
void WriteIndex(tensorflow::Env* env, const std::string& prefix, const BundleEntries& entries,
                int num_shards);

/// Serializes entries, for another rank, and parses them. Throws kIo.
std::string TextOf(const BundleEntries& entries);
BundleEntries EntriesIn(const std::string& text);

/// Adds the entries of a bundle whose data becomes file `shard`, and joins the slices of a tensor.
/// TensorFlow's own MergeBundles miscounts the files if one is empty.
void MergeEntries(const BundleEntries& part, int shard, BundleEntries* merged);

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_BUNDLE_BUNDLE_INDEX_H_
