// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/resource/live_tables.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "ops/cpu/cpu_call.h"
#include "ops/tf/base/exported.h"
#include "ops/tf/tables/resource/table_resource.h"

namespace sok {

namespace {

class LiveTables {
 public:
  void Add(TableResource* table) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto is_gone = [](const auto& each) { return each.GetNewRef() == nullptr; };
    tables_.erase(std::remove_if(tables_.begin(), tables_.end(), is_gone), tables_.end());
    tables_.emplace_back(table);
  }

  /// A table that is made or destroyed meanwhile waits for no caller's use of these.
  std::vector<tf::core::RefCountPtr<TableResource>> Current() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<tf::core::RefCountPtr<TableResource>> found;
    for (const auto& each : tables_) {
      if (auto table = each.GetNewRef()) found.push_back(std::move(table));
    }
    return found;
  }

 private:
  std::mutex mutex_;
  std::vector<tf::core::WeakPtr<TableResource>> tables_;  // in the order in which they were made
};

LiveTables& AllTables() {
  static LiveTables* const tables = new LiveTables;
  return *tables;
}

}  // namespace

void NoteLiveTable(TableResource* table) { AllTables().Add(table); }

}  // namespace sok

/// Calls take(name, TableStatistics::Numbers()) for each table that is initialized.
SOK_EXPORT void sok_table_statistics(void (*take)(const char* name, const int64_t* numbers)) {
  for (const auto& table : sok::AllTables().Current()) {
    sok::CpuCall call(sok::EngineOfCpuDevice(), sok::SerialExecutor());
    sok::TableStatistics found;
    try {
      found = table->Statistics(call);
    } catch (const sok::Error&) {
      continue;  // not initialized yet, or its GPU is lost
    }
    take(found.name.c_str(), found.Numbers().data());
  }
}
