// SPDX-License-Identifier: Apache-2.0
// The index of a checkpoint in TensorFlow's format: which tensors it has, and where they are.
#ifndef SOK_OPS_TF_BUNDLE_INDEX_H_
#define SOK_OPS_TF_BUNDLE_INDEX_H_

#include <map>
#include <string>

#include "tensorflow/core/platform/env.h"

namespace sok {

/// {name: BundleEntryProto as text}, in the order of the file.
using BundleEntries = std::map<std::string, std::string>;

/// Those in <prefix>.index. Throws what the file system says.
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

#endif  // SOK_OPS_TF_BUNDLE_INDEX_H_
