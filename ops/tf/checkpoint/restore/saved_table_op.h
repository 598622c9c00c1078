// SPDX-License-Identifier: Apache-2.0
// Base class of ops that read a table from a checkpoint. The layouts differ in names only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/engine/restored_keys.h"
#include "ops/formats/bundle/saved_columns.h"
#include "ops/formats/bundle/series.h"
#include "ops/tf/checkpoint/bundle/saved_tensors.h"
#include "ops/tf/ranks/whole_table_op.h"

/// Part of a REGISTER_OP. `titles` name the rows and each slot. Without num_buckets the keys are
/// <table_name>/keys; else, in DeepRec's layout, the tensors of part i of a plane are
/// <title>/part_<i><tail>-keys and so on; with fits_rows, rows may have more or fewer columns than
/// saved.
#define SOK_SAVED_TABLE_ATTRIBUTES                    \
  .Attr("table_name: string")                         \
      .Attr("titles: list(string) >= 1")              \
      .Attr("tails: list(string) >= 0 = []")          \
      .Attr("slot_names: list(string) >= 0")          \
      .Attr("slot_is_required: list(bool) >= 0 = []") \
      .Attr("num_buckets: int >= 0 = 0")              \
      .Attr("num_parts: int >= 1 = 1")                \
      .Attr("part: int >= 0 = 0")                     \
      .Attr("fits_rows: bool = false")                \
      .Attr("Tkey: {int64, uint32, int32}")

namespace sok {

/// A table in one checkpoint of the chain that it is restored from.
struct SavedLink {
  SavedLink(const std::string& prefix, bool is_first)
      : saved(prefix), ending(is_first ? "" : kIncrementEnding) {}

  bool is_whole() const { return ending.empty(); }
  int64_t num_wanted() const;

  SavedTensors saved;
  const std::string ending;        // of its tensors' names
  std::vector<std::string> parts;  // in DeepRec's layout: "", or "/part_0" and so on
  std::vector<std::string> gone;   // tensors of keys that have lost their rows
  std::vector<std::string> seeds;  // tensors of which any may be there
  // Set by Open.
  WantedKeys wanted;
  std::optional<Element> element;     // of the rows of all parts; nullopt: there are none
  std::vector<int64_t> widths;        // of the table's rows and slots
  std::vector<SavedColumns> rows;     // by part
  std::vector<SavedColumns> waiting;  // numbers of keys without a row: column 1 + i is number i
};

class SavedTableOp : public WholeTableOp {
 public:
  explicit SavedTableOp(tf::OpKernelConstruction* ctx);

 protected:
  using Chain = std::vector<std::unique_ptr<SavedLink>>;
  /// Finds the names of the table's tensors.
  Chain OpenChain(const std::string& prefix) const;
  /// The table's streams at the end of the chain, the same for all parts; nullopt if they were not
  /// saved.
  static std::optional<SavedStream> StreamOf(const Chain& chain);

  /// Opens the columns of keys with a row, and of keys that wait for one. Throws unless they fit
  /// the table; reads only the index.
  void Open(const TableView& view, SavedLink* link) const;
  /// Finds the keys to take.
  static void Count(SavedLink* link);
  /// Keys that have lost their rows, ascending.
  static std::vector<int64_t> GoneKeys(SavedLink& link);
  /// In DeepRec's layout, where slots have keys of their own: calls use(columns) for the saved
  /// parts of slot i that have wanted keys.
  using UseColumns = std::function<void(SavedColumns& columns)>;
  void ForEachPartOfSlot(SavedLink& link, size_t i, const UseColumns& use) const;
  /// Identifies the contents of the chain.
  static std::string SignatureOf(const Chain& chain);
  bool in_buckets() const { return num_buckets_ > 0; }

  const std::string name_;
  const std::vector<std::string> titles_, tails_;
  const std::vector<std::string> slot_names_;
  const std::vector<bool> slot_is_required_;
  const int64_t num_buckets_, num_parts_, part_;
  const bool fits_rows_;
  const KeysOf keys_;

 private:
  std::string Stem(const SavedLink& link, size_t part, size_t plane) const {
    return titles_[plane] + link.parts[part] + tails_[plane] + link.ending;
  }
  std::vector<std::string> PartsIn(Bundle& saved, const std::string& ending) const;
  bool LacksSlot(SavedLink& link, size_t i) const;
  SavedColumns OpenPlane(SavedLink& link, size_t part, size_t plane) const;
  void OpenSlices(const TableView& view, SavedLink* link) const;
  void OpenParts(const TableView& view, SavedLink* link) const;
  /// The shape of the tensor of a plane, whose dtype it checks; sets the link's element by the
  /// rows.
  static tf::TensorShape ShapeOfPlane(SavedLink* link, size_t plane, const std::string& name);
  void CheckHasSlot(SavedLink& link, const std::string& title) const;
};

}  // namespace sok
