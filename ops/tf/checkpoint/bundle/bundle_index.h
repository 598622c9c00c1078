// SPDX-License-Identifier: Apache-2.0
// Writes the index of a checkpoint in TensorFlow's format; ops/formats/bundle reads it.
#pragma once

#include <map>
#include <string>

namespace sok {

/// {name: BundleEntryProto as text}, in the order of the file.
using BundleEntries = std::map<std::string, std::string>;

/// All entries of <prefix>.index.
BundleEntries ReadIndex(const std::string& prefix);

/// Writes <prefix>.index, of a checkpoint whose data is in `num_shards` files.
void WriteIndex(const std::string& prefix, const BundleEntries& entries, int num_shards = 1);

/// Adds the entries of a bundle whose data becomes file `shard`, and joins the slices of a tensor.
/// TensorFlow's own MergeBundles miscounts the files if one is empty.
void MergeEntries(const BundleEntries& part, int shard, BundleEntries* merged);

}  // namespace sok
