// SPDX-License-Identifier: Apache-2.0
// Times of the steps between a lookup's row ids and the optimizer, on the CPU, and of inserts that
// write rows.
//
// make core-bench builds and runs it.
// usage: lookup_benchmark [threads = 1]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "ops/base/hash.h"
#include "ops/base/threads/executor.h"
#include "ops/cpu/cpu_engine.h"

namespace sok {
namespace {

constexpr int kRuns = 15;
constexpr int64_t kRows = 1 << 19;  // of the table
constexpr int64_t kKeys = 106'496;  // occurrences: a batch of 4,096 samples of 26
constexpr int64_t kDistinct = 60'000;
constexpr int64_t kKeysPerBag = 4;

/// Prints the median of kRuns.
void Measure(const std::string& what, const std::function<void(int)>& run) {
  std::vector<double> seconds;
  for (int r = 0; r < kRuns; ++r) {
    const auto begin = std::chrono::steady_clock::now();
    run(r);
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf("  %-32s %9.1f us\n", what.c_str(), 1e6 * seconds[seconds.size() / 2]);
}

/// A batch whose keys repeat, and rows all over the table.
struct Batch {
  explicit Batch(Combiner combiner) {
    for (int64_t i = 0; i < kKeys; ++i) {
      const uint64_t word = MixBits(static_cast<uint64_t>(i) + 1);
      inverse.push_back(static_cast<int32_t>(
          i < kDistinct ? i : static_cast<int64_t>(word % static_cast<uint64_t>(kDistinct))));
    }
    for (int64_t i = 0; i <= kKeys; i += kKeysPerBag) row_splits.push_back(i);
    for (int64_t d = 0; d < kDistinct; ++d) row_ids.push_back(d * 7919 % kRows);
    bags.num_keys = kKeys;
    bags.num_distinct = kDistinct;
    bags.inverse = inverse.data();
    bags.num_bags = combiner == Combiner::kNone ? kKeys : kKeys / kKeysPerBag;
    bags.row_splits = row_splits.data();
    bags.combiner = combiner;
  }

  std::vector<int32_t> inverse;
  std::vector<int64_t> row_splits;
  std::vector<int64_t> row_ids;
  Bags bags;
};

TableOptions Options(bool use_hash_index, int64_t dim) {
  TableOptions options;
  options.name = "benchmark";
  options.dim = dim;
  options.capacity = kRows;
  options.use_hash_index = use_hash_index;
  options.first_value = {FirstValue::Kind::kUniform, -0.05f, 0.05f, 1};
  return options;
}

/// Of a measurement with rows of these numbers.
std::string NameWith(const char* what, const Named<Element>& element) {
  return element.value == Element::kFloat32 ? what : std::string(what) + " " + element.name;
}

void MeasureBags(Call& call, int64_t dim) {
  const std::vector<float> plane(static_cast<size_t>(kRows * dim), 1.0f);
  std::vector<float> out(static_cast<size_t>(kKeys * dim));
  const auto name = [&](const std::string& what, Combiner combiner) {
    const char* names[] = {"none", "sum", "mean"};
    return what + ", " + names[static_cast<int>(combiner)] + ", dim " + std::to_string(dim);
  };
  for (const Combiner combiner : {Combiner::kNone, Combiner::kSum, Combiner::kMean}) {
    const Batch batch(combiner);
    for (const auto& element : kElements) {
      RowsView rows = FloatRows(plane.data(), dim);
      rows.element = element.value;
      Measure(name(NameWith("pool", element), combiner), [&](int) {
        CpuEngine().PoolRows(call, batch.bags, {rows, batch.row_ids.data(), nullptr}, out.data());
      });
    }
    Measure(name("merge", combiner), [&](int) {
      CpuEngine().MergeGradients(call, batch.bags, dim, plane.data(), out.data());
    });
  }
}

void MeasureRules(Call& call, int64_t dim) {
  const Batch batch(Combiner::kSum);
  const auto table = CpuEngine().MakeTable(Options(false, dim));
  table->InsertAll(call, {});
  const std::vector<float> gradients(static_cast<size_t>(kDistinct * dim), 1e-3f);
  std::vector<float> rows(static_cast<size_t>(kRows * dim), 1.0f);
  std::vector<float> states(static_cast<size_t>(2 * kRows * dim), 1.0f);
  std::vector<Bfloat16> salts(static_cast<size_t>(kRows));
  RulePlanes planes;
  planes.rows = FloatRows(rows.data(), dim);
  planes.rounding.salts = salts.data();
  const auto measure = [&](const std::string& name, const Rule& rule) {
    Measure(name + ", dim " + std::to_string(dim), [&](int) {
      table->ApplyToRows(call, rule, planes, kDistinct, batch.row_ids.data(), gradients.data());
    });
  };
  for (const auto& element : kElements) {
    planes.rows.element = element.value;
    planes.states[0] = FloatRows(states.data(), dim);
    measure(NameWith("adagrad", element), AdagradRule{0.1f, 0.0f});
    planes.states[0] = FloatRows(states.data(), 1);
    measure(NameWith("row-wise adagrad", element), RowWiseAdagradRule{0.1f, 0.0f});
  }
  planes.rows.element = Element::kFloat32;
  planes.states[0] = FloatRows(states.data(), 2 * dim);
  planes.states[1] = planes.states[0].FromColumn(dim);
  const AdamRule adam{0.01f, 0.9f, 0.999f, 1e-7f};
  measure("lazy adam", adam);
  Measure("adam, dim " + std::to_string(dim), [&](int) {
    table->ApplyToRowsInUse(call, adam, planes, kDistinct, batch.row_ids.data(), gradients.data());
  });
}

void MeasureTables(Call& call) {
  std::vector<int64_t> keys;
  for (int64_t i = 0; i < kRows; ++i) keys.push_back(i * 7919 % kRows);
  std::vector<int64_t> row_ids(keys.size());
  for (const bool use_hash_index : {true, false}) {
    const std::string kind = use_hash_index ? " (hash index)" : " (no hash index)";
    std::shared_ptr<Table> table;
    std::shared_ptr<Plane> rows;
    const auto insert = [&] {
      table->FindOrInsert(call, {kRows, keys.data(), true}, {rows.get(), {}}, row_ids.data());
    };
    Measure("insert rows of 16" + kind, [&](int) {
      table = CpuEngine().MakeTable(Options(use_hash_index, 16));
      rows = CpuEngine().MakePlane({kRows, 16, use_hash_index});
      insert();
    });
    Measure("find" + kind, [&](int) { table->Find(call, kRows, keys.data(), row_ids.data()); });
    Measure("find or insert, all held" + kind, [&](int) { insert(); });
  }
}

}  // namespace
}  // namespace sok

int main(int argc, char** argv) {
  const auto executor = sok::MakeThreadExecutor(argc > 1 ? std::atoi(argv[1]) : 1);
  const auto call = sok::CpuEngine().MakeCall(*executor, nullptr);
  for (const int64_t dim : {16, 128}) {
    sok::MeasureBags(*call, dim);
    sok::MeasureRules(*call, dim);
  }
  sok::MeasureTables(*call);
}
