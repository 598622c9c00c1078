// SPDX-License-Identifier: Apache-2.0
// The index of a checkpoint in TensorFlow's format: which tensors it has, and where they are.
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

/// <prefix>.index, looked up in. TensorFlow's own BundleReader takes a damaged block for the end,
/// and ends the process for a size that is damaged. For one thread.
///
/// All throw what the file system says, and kDataLoss for what is no index; both name the file.
class BundleIndex {
 public:
  BundleIndex(tensorflow::Env* env, const std::string& prefix);

  /// Of data files.
  int num_shards() const { return num_shards_; }
  /// BundleEntryProto as text; none: there is no tensor of that name.
  std::optional<std::string> Find(const std::string& name);
  /// Calls use(name, entry) for all names that begin so, ascending, but for the header.
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

/// Entries as one text, for another rank, and back. Throws kIo.
std::string TextOf(const BundleEntries& entries);
BundleEntries EntriesIn(const std::string& text);

/// Adds the entries of a bundle whose data becomes file `shard`. Slices of one tensor come
/// together. TensorFlow's own MergeBundles miscounts the files where one is empty.
void MergeEntries(const BundleEntries& part, int shard, BundleEntries* merged);

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_BUNDLE_BUNDLE_INDEX_H_
