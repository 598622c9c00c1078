// SPDX-License-Identifier: Apache-2.0
// Which steps run, what they hold, and which of them wait while a checkpoint is made. No framework.
#ifndef SOK_OPS_TF_STEPS_STEP_REGISTRY_H_
#define SOK_OPS_TF_STEPS_STEP_REGISTRY_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "ops/exchange/protocol/message.h"

namespace sok {

/// Of a session. A step has a number, and begins when it first finds rows: until then it has
/// changed nothing that depends on them. Any thread may call anything.
class StepRegistry {
 public:
  /// The number of steps whose end nobody sees: they do not count as begun, and hold rows for ever.
  static constexpr int64_t kUnseen = 0;

  // --- from a step's first op to its end ---

  struct Membership {
    int64_t step;
    bool is_first;         // the caller sees to it that Forget is called
    bool is_in_container;  // as the step's op before
  };
  /// The step that `identity` stands for, an object that lives as long as it and is of no other;
  /// `container`: where TensorFlow keeps what goes with the step, or a function that it calls.
  Membership Join(const void* identity, const void* container);
  /// The step ends, as soon as it has no holds left; `identity` may be another one's.
  void Forget(const void* identity);
  void Hold(int64_t step);
  void Release(int64_t step);

  // --- rows that a step holds ---

  /// From now on the step may hold row ids of the table, until it ends.
  void Use(int64_t step, const void* table);
  /// Later than all uses until now.
  int64_t Now();
  /// Whether a step runs that used the table before that moment.
  bool IsInUse(const void* table, int64_t moment);
  /// The step has given these rows to keys that had none. `contents`: of the table, as a number
  /// that no others have.
  void Give(int64_t step, int64_t contents, const std::vector<int64_t>& rows);
  /// All that it has given, ascending.
  std::vector<int64_t> GivenRows(int64_t step, int64_t contents);

  // --- beside a checkpoint ---

  /// Whether the step may find rows now; then it has begun. `lookup`: for messages; `collectives`:
  /// where it meets other ranks.
  bool Enter(int64_t step, const std::string& lookup, const std::vector<CollectiveId>& collectives);
  /// Where Enter was false: calls `go_on` once, when the step may, perhaps at once.
  void Await(int64_t step, const std::string& lookup, const std::vector<CollectiveId>& collectives,
             std::function<void()> go_on);

  /// {lookup hash: the highest number}
  using Cut = std::map<uint64_t, int64_t>;

  /// From now on steps wait that have not begun. That one goes on, and nobody waits for it. Each
  /// Close has its Open.
  void Close(int64_t step);
  void Open();
  /// Of each lookup, the highest number that a step has begun here.
  Cut Begun();
  /// Steps with lookups up to the cut begin here, too.
  void Raise(const Cut& cut);
  /// Steps that have begun and run, as texts for messages.
  std::vector<std::string> Running();
  /// Returns when none is running, or one has begun a lookup beyond the cut, or after that time.
  void AwaitChange(std::chrono::milliseconds most);
  /// Ends the cut, once none is running; false after that time.
  bool EndCut(std::chrono::milliseconds most);

 private:
  using Clock = std::chrono::steady_clock;
  struct Step {
    int64_t num_holds = 1;  // the first is that of its identity
    const void* container = nullptr;
    bool has_begun = false;
    bool is_exempt = false;  // it makes a checkpoint
    std::string lookup;      // with which it began
    Clock::time_point began;
    std::map<const void*, int64_t> uses;            // {table: since when}
    std::map<int64_t, std::vector<int64_t>> given;  // {contents: rows}
  };
  struct Waiting {
    int64_t step;
    std::string lookup;
    std::vector<CollectiveId> collectives;
    std::function<void()> go_on;
  };

  // These need mutex_.
  Step* Find(int64_t step);
  bool MayBegin(const Step* step, const std::vector<CollectiveId>& collectives) const;
  void Begin(Step* step, const std::string& lookup, const std::vector<CollectiveId>& collectives);
  void ReleaseLocked(int64_t step);
  bool IsRunning() const;
  bool IsBeyondCut() const;
  std::vector<std::function<void()>> TakeThoseWhoMay();
  void WakeThoseWhoMay();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<const void*, int64_t> numbers_;  // by identity
  std::map<int64_t, Step> steps_;           // by number
  int64_t last_number_ = kUnseen;
  int64_t now_ = 0;
  int64_t num_closed_ = 0;  // by how many
  Cut begun_, cut_;
  std::vector<Waiting> waiting_;
};

/// The rows of a table's evicted keys, until no step holds their ids. For one thread at a time.
class EvictedRows {
 public:
  void Add(StepRegistry& steps, int64_t num_rows) { rows_.push_back({steps.Now(), num_rows}); }
  /// How many, the first ones first, no step holds any more.
  int64_t NumReturnable(StepRegistry& steps, const void* table) const;
  /// So many of the first ones, as NumReturnable said, may go to new keys now.
  void Returned(int64_t num_rows);

 private:
  struct Rows {
    int64_t moment;
    int64_t count;
  };
  std::deque<Rows> rows_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_STEPS_STEP_REGISTRY_H_
