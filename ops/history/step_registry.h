// SPDX-License-Identifier: Apache-2.0
// Which steps run, which rows they use, and which of them wait for a checkpoint.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ops/base/collective_id.h"

namespace sok {

/// The steps of a session. A step has a number, and begins when it first finds rows: before, it has
/// changed nothing that depends on them. Thread-safe.
class StepRegistry {
 public:
  /// The number of steps whose end cannot be observed: they never count as begun, and use rows for
  /// ever.
  static constexpr int64_t kUnseen = 0;

  /// `last_id`: the ids of GiveIds descend from there.
  explicit StepRegistry(int64_t last_id = -1) : last_id_(last_id) {}

  // --- from a step's first op to its end ---

  struct Membership {
    int64_t step;
    bool is_first;         // the caller must arrange for Forget to be called
    bool is_in_container;  // same container as the step's previous op
  };
  /// The step of `identity`, an object that lives as long as the step and belongs to no other;
  /// `container`: where TensorFlow keeps the state of the step or of a function that it calls.
  Membership Join(const void* identity, const void* container);
  /// Ends the step as soon as nothing refers to it; later, `identity` may belong to another step.
  void Forget(const void* identity);
  void AddReference(int64_t step);
  void Release(int64_t step);

  // --- rows that a step uses ---

  /// Records that the step may use row ids of the table until it ends. Returns the moment of its
  /// first use of the table; of kUnseen, a moment later than all uses until now.
  int64_t Use(int64_t step, const void* table);
  /// As if a step had used the table since that moment; until Release of the returned number.
  int64_t KeepRows(const void* table, int64_t since);
  /// A moment later than all moments until now: the nanoseconds since 1970, or one more than the
  /// last if the clock does not tell them apart.
  int64_t Now();
  /// Whether a running step used the table before that moment.
  bool IsInUse(const void* table, int64_t moment);
  /// Records that the step assigned these rows to keys that had none. `contents`: a number that is
  /// unique to the table's contents.
  void Give(int64_t step, int64_t contents, const std::vector<int64_t>& rows);
  /// Returns an id below -1 for the first of keys that the step has counted and that have no row;
  /// the others' descend from it. Ids begin anew after some four billion, whose steps have ended:
  /// no two keys that wait have the same one.
  int64_t GiveIds(int64_t step, int64_t contents, std::vector<int64_t> keys);
  /// The keys to which GiveIds gave ids in this step, until it ends.
  struct KeysWithIds {
    int64_t first_id;
    std::vector<int64_t> keys;
  };
  std::vector<std::shared_ptr<const KeysWithIds>> WaitingKeys(int64_t step, int64_t contents);
  /// All rows that the step has assigned, ascending.
  std::vector<int64_t> GivenRows(int64_t step, int64_t contents);

  // --- for checkpoints ---

  /// Whether the step may find rows now; it has then begun. `lookup`: for error messages;
  /// `collectives`: those of the lookup with other ranks.
  bool Enter(int64_t step, const std::string& lookup, const std::vector<CollectiveId>& collectives);
  /// If Enter returned false: calls `go_on` once, when the step may proceed, perhaps immediately.
  void Await(int64_t step, const std::string& lookup, const std::vector<CollectiveId>& collectives,
             std::function<void()> go_on);

  /// {lookup hash: the highest number}
  using Cut = std::map<uint64_t, int64_t>;

  /// Makes steps that have not begun wait, except `step`, which does not count as running either.
  /// Each Close needs an Open.
  void Close(int64_t step);
  void Open();
  /// The highest number that a step has begun here, by lookup.
  Cut Begun();
  /// Lets steps with lookups up to the cut begin here, too.
  void Raise(const Cut& cut);
  /// Describes the running steps, for error messages.
  std::vector<std::string> Running();
  /// Returns when no step is running, or one has begun a lookup beyond the cut, or after `most`.
  void AwaitChange(std::chrono::milliseconds most);
  /// Ends the cut once no step is running; returns false after `most`.
  bool EndCut(std::chrono::milliseconds most);

 private:
  using Clock = std::chrono::steady_clock;
  struct Step {
    int64_t num_references = 1;  // the first is its identity's
    const void* container = nullptr;
    bool has_begun = false;
    bool is_exempt = false;  // the step that saves
    std::string lookup;      // the lookup with which it began
    Clock::time_point began;
    std::map<const void*, int64_t> uses;            // {table: since when}
    std::map<int64_t, std::vector<int64_t>> given;  // {contents: rows}
    std::map<int64_t, std::vector<std::shared_ptr<const KeysWithIds>>> waiting;  // {contents: keys}
  };
  struct Waiting {
    int64_t step;
    std::string lookup;
    std::vector<CollectiveId> collectives;
    std::function<void()> go_on;
  };

  // The calls below need mutex_.
  Step* Find(int64_t step);
  bool MayBegin(const Step* step, const std::vector<CollectiveId>& collectives) const;
  void Begin(Step* step, const std::string& lookup, const std::vector<CollectiveId>& collectives);
  int64_t Tick();
  void ReleaseLocked(int64_t step);
  bool IsRunning() const;
  bool IsBeyondCut() const;
  std::vector<std::function<void()>> TakeReady();
  void WakeReady();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<const void*, int64_t> numbers_;  // by identity
  std::map<int64_t, Step> steps_;           // by number
  int64_t last_number_ = kUnseen;
  int64_t last_id_;
  int64_t now_ = 0;
  int64_t num_closed_ = 0;  // number of Close calls without Open
  Cut begun_, cut_;
  std::vector<Waiting> waiting_;
};

}  // namespace sok
