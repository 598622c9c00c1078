// SPDX-License-Identifier: Apache-2.0
// The steps that use a table, as its policy sees them.
#ifndef SOK_OPS_HISTORY_TABLE_STEPS_H_
#define SOK_OPS_HISTORY_TABLE_STEPS_H_

#include <cstdint>
#include <vector>

namespace sok {

/// Steps have numbers. Thread-safe.
class TableSteps {
 public:
  virtual ~TableSteps() = default;

  /// A moment later than all moments until now.
  virtual int64_t Now() = 0;
  /// Whether a running step used the table before that moment.
  virtual bool IsInUse(int64_t moment) = 0;

  /// Records that a step has assigned these rows, none of which had a key: to the step itself,
  /// their keys have no row until it ends.
  virtual void NoteGiven(int64_t step, const std::vector<int64_t>& rows) = 0;
  /// All of these rows, ascending.
  virtual std::vector<int64_t> GivenRows(int64_t step) = 0;
  /// Returns an id below kNoRow for the first of keys that a step has counted and that have no row;
  /// the others' descend from it.
  virtual int64_t NoteWaiting(int64_t step, std::vector<int64_t> keys) = 0;
  /// Records that these keys have lost these rows, whose ids running steps may still hold.
  virtual void NoteEvicted(const std::vector<int64_t>& keys, const std::vector<int64_t>& rows) = 0;
};

}  // namespace sok

#endif  // SOK_OPS_HISTORY_TABLE_STEPS_H_
