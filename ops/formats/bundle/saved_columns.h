// SPDX-License-Identifier: Apache-2.0
// Columns of a table in a checkpoint, in either layout, of the keys that this rank takes.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ops/formats/bundle/saved_streams.h"
#include "ops/formats/bundle/wanted_keys.h"
#include "ops/formats/rows.h"

namespace sok {

/// Keys, int64 or int32, and tensors with a row for each of them: slices of all ranks, or one
/// part's. All methods throw the errors of Bundle.
class SavedColumns : public RowsSource {
 public:
  /// `starts`: the tensor of where each bucket starts, if there is one: parts without wanted keys
  /// are not read. Throws kInvalidArgument for other keys. `saved` must outlive this.
  SavedColumns(Bundle& saved, const WantedKeys& wanted, std::string name_of_keys,
               std::string starts = "");

  /// Adds the tensor of a column of the table.
  void Add(const std::string& name, size_t column);
  void LimitRows(int64_t of_block) { most_rows_ = of_block; }
  /// Counts the wanted keys. ForEachBlock reads only slices that have some.
  void Count();

  const std::string& name_of_keys() const { return names_[0]; }
  /// Of all ranks, wanted or not.
  int64_t num_saved() const { return num_saved_; }
  /// Throws unless all slices are there.
  void CheckPieces() const;
  int64_t num_keys() const override { return num_wanted_; }
  void ForEachBlock(const Use& use, const Place& place = nullptr) override;
  /// All wanted keys, without Count.
  std::vector<int64_t> Keys() const;
  std::string Signature() const;

 private:
  bool HasNone() const;
  void Choose(const SavedBlock& read, RowsBlock* block);
  template <typename UseKey>
  void ForEachWanted(const char* keys, int64_t count, const UseKey& use) const;

  Bundle& saved_;
  const WantedKeys wanted_;
  const std::string starts_;
  std::vector<std::string> names_;  // of the keys, then of columns
  std::vector<size_t> numbers_{0};  // of these columns in the table
  std::vector<int64_t> row_bytes_;  // of these columns
  int64_t most_rows_ = INT64_MAX;   // of a block
  int64_t num_saved_ = 0, num_wanted_ = 0;
  bool are_narrow_ = false;             // int32
  std::set<int64_t> slices_;            // the first rows of those that have wanted keys
  bool slices_are_whole_ = true;        // they have no other keys
  std::vector<int64_t> keys_, places_;  // of the wanted keys of a block
  std::vector<std::vector<char>> chosen_;
};

}  // namespace sok
