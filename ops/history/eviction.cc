// SPDX-License-Identifier: Apache-2.0
// KeyPolicy::Evict: eviction by the last step of a key and by the norm of its row.
#include <algorithm>
#include <mutex>

#include "ops/base/error.h"
#include "ops/engine/engine.h"
#include "ops/history/key_policy.h"

namespace sok {
namespace {

constexpr int64_t kMostKeysAtOnce = 4096;  // for which eviction blocks the counting of steps
constexpr int64_t kFloatsAtOnce = 4 << 20;

/// Appends the keys whose rows have half a squared norm below the threshold.
void AddLightKeys(Call& call, const Plane& plane, const TableEntries& entries, const int64_t* keys,
                  float threshold, std::vector<int64_t>* light) {
  const int64_t dim = plane.width();
  const int64_t most = std::min(entries.count, std::max<int64_t>(1, kFloatsAtOnce / dim));
  auto* part = call.Temporary<float>(most * dim);
  std::vector<float> buffer;
  for (int64_t first = 0; first < entries.count; first += most) {
    const int64_t count = std::min(most, entries.count - first);
    call.engine().GatherRows(call, count, entries.row_ids + first, plane.data(), part);
    const float* rows = call.OnHost(part, count * dim, &buffer);
    for (int64_t i = 0; i < count; ++i) {
      float squares = 0.0f;
      for (int64_t column = 0; column < dim; ++column) {
        const float number = rows[i * dim + column];
        squares += number * number;
      }
      if (0.5f * squares < threshold) light->push_back(keys[first + i]);
    }
  }
}

/// Appends the keys whose last step is before `first_step`; those without one get `step`.
void AddOldKeys(KeyHistory* history, int64_t step, int64_t first_step, int64_t count,
                const int64_t* keys, const int64_t* row_ids, std::vector<int64_t>* old) {
  const std::lock_guard<FairSharedMutex> lock(history->mutex());
  for (int64_t i = 0; i < count; ++i) {
    KeySeen seen = history->OfRow(row_ids[i]);
    if (seen.step < 0) {
      seen.step = step;
      history->SetRow(row_ids[i], seen);
    } else if (seen.step < first_step) {
      old->push_back(keys[i]);
    }
  }
}

void ForgetOldWaiting(Call& call, KeyHistory* history, int64_t step, int64_t first_step) {
  for (int64_t first = 0;; first += kMostKeysAtOnce) {
    const std::lock_guard<FairSharedMutex> lock(history->mutex());
    WaitingKeys& waiting = history->waiting();
    if (first >= waiting.num_places()) return;
    std::vector<int64_t> keys;
    std::vector<KeySeen> seen;
    waiting.Export(first, std::min(first + kMostKeysAtOnce, waiting.num_places()), &keys, &seen);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (seen[i].step < 0) {
        seen[i].step = step;
        waiting.Put(call.executor(), 1, &keys[i], &seen[i]);
      } else if (seen[i].step < first_step) {
        waiting.Erase(keys[i]);
      }
    }
  }
}

int64_t StepAfterLast(KeyHistory* history) {
  const std::lock_guard<FairSharedMutex> lock(history->mutex());
  return history->last_step() + 1;
}

}  // namespace

int64_t KeyPolicy::Evict(Call& call, Table& table, const Plane& rows, EvictionRule rule) {
  KeyHistory* const history = &KeptHistory(table);
  if (!options().evicts) {
    Throw(ErrorCode::kFailedPrecondition, "table '", table.options().name,
          "' was not made to evict keys");
  }
  const TableEntries entries = table.Export(call);
  std::vector<int64_t> keys_buffer, ids_buffer, light, old;
  const int64_t* keys = call.OnHost(entries.keys, entries.count, &keys_buffer);
  const int64_t* row_ids = call.OnHost(entries.row_ids, entries.count, &ids_buffer);
  if (rule.l2_threshold > 0.0f) AddLightKeys(call, rows, entries, keys, rule.l2_threshold, &light);
  if (rule.steps_to_live > 0 && rule.step < 0) rule.step = StepAfterLast(history);
  const int64_t first_step = rule.step - rule.steps_to_live;
  if (rule.steps_to_live > 0) {
    for (int64_t first = 0; first < entries.count; first += kMostKeysAtOnce) {
      AddOldKeys(history, rule.step, first_step, std::min(kMostKeysAtOnce, entries.count - first),
                 keys + first, row_ids + first, &old);
    }
    ForgetOldWaiting(call, history, rule.step, first_step);
  }
  return EvictUnlessUsed(call, table, INT64_MAX, light) +
         EvictUnlessUsed(call, table, first_step, old);
}

/// Evicts those of `keys` that still last occurred before `first_step`; returns their number.
int64_t KeyPolicy::EvictUnlessUsed(Call& call, Table& table, int64_t first_step,
                                   const std::vector<int64_t>& keys) {
  int64_t num_evicted = 0;
  for (size_t first = 0; first < keys.size(); first += kMostKeysAtOnce) {
    const size_t count = std::min<size_t>(kMostKeysAtOnce, keys.size() - first);
    Evicted gone;
    const std::lock_guard<FairSharedMutex> lock(history_.mutex());
    const std::vector<int64_t> row_ids =
        table.FindOnHost(call, static_cast<int64_t>(count), &keys[first]);
    for (size_t i = 0; i < count; ++i) {
      if (row_ids[i] == kNoRow || history_.OfRow(row_ids[i]).step >= first_step) continue;
      gone.keys.push_back(keys[first + i]);
      gone.rows.push_back(row_ids[i]);
    }
    EvictRows(call, table, gone);
    num_evicted += static_cast<int64_t>(gone.keys.size());
  }
  return num_evicted;
}

}  // namespace sok
