// SPDX-License-Identifier: Apache-2.0
#include "ops/history/use_order.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace sok {
namespace {

constexpr int64_t kPartOfKeys = 16;
constexpr int64_t kLeastKeys = 1024;

bool IsOlder(const LastUse& a, const LastUse& b) {
  return std::tie(a.moment, a.key) < std::tie(b.moment, b.key);
}

void KeepOldest(int64_t count, std::vector<LastUse>* uses) {
  std::nth_element(uses->begin(), uses->begin() + (count - 1), uses->end(), IsOlder);
  uses->resize(static_cast<size_t>(count));
}

}  // namespace

std::vector<LastUse> UseOrder::First(int64_t count, int64_t before,
                                     const std::vector<int64_t>& kept_rows,
                                     const LastUseOfRow& last_use,
                                     const std::function<TableEntries()>& export_entries) {
  std::vector<LastUse> first = FirstSorted(count, before, kept_rows, last_use);
  if (static_cast<int64_t>(first.size()) == count) return first;
  const TableEntries entries = export_entries();
  const auto num_kept = static_cast<int64_t>(kept_rows.size());
  Sort(count + num_kept + std::max(kLeastKeys, entries.count / kPartOfKeys), before, last_use,
       entries);
  return FirstSorted(count, before, kept_rows, last_use);
}

std::vector<LastUse> UseOrder::FirstSorted(int64_t count, int64_t before,
                                           const std::vector<int64_t>& kept_rows,
                                           const LastUseOfRow& last_use) {
  const auto is_current = [&](const LastUse& use) { return last_use(use.row_id) == use.moment; };
  while (next_ < sorted_.size() && !is_current(sorted_[next_])) ++next_;
  std::vector<LastUse> first;
  for (size_t i = next_; i < sorted_.size() && sorted_[i].moment < before; ++i) {
    if (static_cast<int64_t>(first.size()) == count) break;
    if (!is_current(sorted_[i])) continue;
    if (std::binary_search(kept_rows.begin(), kept_rows.end(), sorted_[i].row_id)) continue;
    first.push_back(sorted_[i]);
  }
  return first;
}

/// Sorts the `count` oldest keys, in memory for twice as many. Keys used at `before` or later are
/// left out: more may come with the same last use.
void UseOrder::Sort(int64_t count, int64_t before, const LastUseOfRow& last_use,
                    const TableEntries& entries) {
  std::vector<LastUse> oldest;
  const auto most = static_cast<size_t>(2 * count);
  oldest.reserve(std::min(most, static_cast<size_t>(entries.count)));
  for (int64_t i = 0; i < entries.count; ++i) {
    const int64_t moment = last_use(entries.row_ids[i]);
    if (moment < before) oldest.push_back({moment, entries.keys[i], entries.row_ids[i]});
    if (oldest.size() == most) KeepOldest(count, &oldest);
  }
  if (static_cast<int64_t>(oldest.size()) > count) KeepOldest(count, &oldest);
  std::sort(oldest.begin(), oldest.end(), IsOlder);
  sorted_ = std::move(oldest);
  next_ = 0;
}

}  // namespace sok
