// SPDX-License-Identifier: Apache-2.0
// The engines under test in the conformance suite, and tables with planes on them.
//
// A test runs on the CPU's engine, with one and with several threads, and on the test double of a
// GPU, whose threads are forced to overlap; with SOK_TEST_ON_GPU, on a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "ops/cpu/cpu_engine.h"
#include "ops/engine/engine.h"
#include "ops/tests/check.h"
#include "ops/tests/conformance/first_value_of_key.h"

#ifdef SOK_TEST_ON_GPU
#include "ops/cuda/cuda_engine.h"
#else
#include "ops/tests/conformance/unruly_executor.h"
#include "ops/tests/host_queue/host_engine.h"
#endif

namespace sok::testing {

using Ids = std::vector<int64_t>;
using Floats = std::vector<float>;
using Numbers = std::vector<int32_t>;
using Words = std::vector<std::string>;

template <typename Value>
int64_t Size(const std::vector<Value>& values) {
  return static_cast<int64_t>(values.size());
}

/// An engine and the threads of calls to it.
struct TestedEngine {
  std::string name;
  Engine& engine;
  Executor& executor;
  std::shared_ptr<PageCache> storage = nullptr;  // of its planes

  std::shared_ptr<Plane> MakePlane(PlaneOptions options) const {
    options.storage = storage;
    return engine.MakePlane(options);
  }
  std::unique_ptr<Call> NewCall() const { return engine.MakeCall(executor, nullptr); }
};

/// Rows in files of the current folder, of which only a few pages stay in memory.
inline std::shared_ptr<PageCache> FewPages() {
  return std::make_shared<PageCache>(".", 3 * static_cast<int64_t>(PageBytes()));
}

inline const std::vector<TestedEngine>& TestedEngines() {
#ifdef SOK_TEST_ON_GPU
  static const auto* engines =
      new std::vector<TestedEngine>{{"CUDA", CudaEngine(0), SerialExecutor()}};
#else
  static auto* unruly = new UnrulyExecutor(4);
  static auto* threads = MakeThreadExecutor(3).release();
  static auto* host_queue = MakeHostQueueEngine(*unruly).release();
  static const auto* engines =
      new std::vector<TestedEngine>{{"CPU, one thread", CpuEngine(), SerialExecutor()},
                                    {"CPU, threads", CpuEngine(), *threads},
                                    {"CPU, files", CpuEngine(), *threads, FewPages()},
                                    {"host queue", *host_queue, SerialExecutor()}};
#endif
  return *engines;
}

/// The type of the numbers in rows that are under test.
inline Element& ElementUnderTest() {
  static Element element = Element::kFloat32;
  return element;
}

/// Calls test(engine) for all of them, and names the engine that fails.
template <typename Test>
void OnAllEnginesWithFloats(const Test& test) {
  for (const TestedEngine& tested : TestedEngines()) {
    std::cerr << "  " << tested.name << std::endl;
    test(tested);
  }
}

/// Calls run() with each element under test.
template <typename Run>
void WithAllElements(const Run& run) {
  for (const auto& element : kElements) {
    std::cerr << "  " << element.name << std::endl;
    ElementUnderTest() = element.value;
    run();
  }
  ElementUnderTest() = Element::kFloat32;
}

template <typename Test>
void OnAllEngines(const Test& test) {
  WithAllElements([&] { OnAllEnginesWithFloats(test); });
}

/// The values, as they are in rows of the element under test.
inline Floats AsElements(Floats values) {
  for (float& value : values) value = AsElement(ElementUnderTest(), value);
  return values;
}

/// One call, and arrays in its memory.
class CallWithArrays {
 public:
  explicit CallWithArrays(const TestedEngine& tested)
      : engine_(tested.engine), call_(tested.NewCall()) {}

  Call& call() const { return *call_; }

  /// A marker that no expected value equals.
  template <typename Value>
  Value* Empty(int64_t count) {
    const std::vector<char> noise(static_cast<size_t>(count) * sizeof(Value), '\xA5');
    auto* array = call_->template Temporary<Value>(count + 1);
    engine_.CopyFromHost(*call_, array, noise.data(), Size(noise));
    return array;
  }
  template <typename Value>
  Value* Upload(const std::vector<Value>& values) {
    auto* array = call_->template Temporary<Value>(Size(values) + 1);
    engine_.CopyFromHost(*call_, array, values.data(), Size(values) * int64_t{sizeof(Value)});
    return array;
  }
  template <typename Value>
  std::vector<Value> Download(const Value* array, int64_t count) {
    std::vector<Value> values(static_cast<size_t>(count));
    engine_.CopyToHost(*call_, values.data(), array, count * int64_t{sizeof(Value)});
    return values;
  }

  /// Rows of the element under test, in memory of the call.
  RowsView UploadRows(const Floats& values, int64_t width) {
    RowsView rows = FloatRows(Upload(values), width);
    if (ElementUnderTest() == Element::kFloat32) return rows;
    rows.element = ElementUnderTest();
    WithElement(rows, [&](auto* numbers) {
      std::vector<std::remove_pointer_t<decltype(numbers)>> narrow(values.size());
      for (size_t i = 0; i < values.size(); ++i) RoundTo(values[i], kToNearest, &narrow[i]);
      rows.data = Upload(narrow);
    });
    return rows;
  }
  Floats DownloadRows(const RowsView& rows, int64_t num_rows) {
    Floats values;
    WithElement(rows, [&](auto* numbers) {
      for (const auto number : Download(numbers, num_rows * rows.width)) {
        values.push_back(Widened(number));
      }
    });
    return values;
  }

 private:
  Engine& engine_;
  std::unique_ptr<Call> call_;
};

constexpr float kSlotValue = 0.5f;
constexpr int64_t kSlotWidth = 2;

inline TableOptions Options(bool use_hash_index, int64_t capacity, int64_t dim = 3) {
  TableOptions options;
  options.name = "users";
  options.dim = dim;
  options.capacity = capacity;
  options.use_hash_index = use_hash_index;
  options.first_value = {FirstValue::Kind::kUniform, 1.0f, 2.0f, FirstValueStream(1, "users")};
  options.first_value.element = ElementUnderTest();
  return options;
}

/// A table with planes for its rows and one slot; arrays of the host in and out.
class TestedTable {
 public:
  TestedTable(const TestedEngine& tested, const TableOptions& options)
      : tested_(tested),
        table_(tested.engine.MakeTable(options)),
        rows_(tested.MakePlane(
            {options.capacity, options.dim, options.use_hash_index, options.first_value.element})),
        slot_(tested.MakePlane({options.capacity, kSlotWidth, options.use_hash_index})),
        salts_(tested.MakePlane({options.capacity, 1, options.use_hash_index, Element::kBfloat16})),
        planes_{rows_.get(), {{slot_.get(), kSlotValue}}, salts_.get()} {}

  Table& table() const { return *table_; }
  Plane& rows() const { return *rows_; }
  Plane& slot() const { return *slot_; }
  const Planes& planes() const { return planes_; }
  const TableOptions& options() const { return table_->options(); }

  TableSize GetSize() const { return table_->Size(*tested_.NewCall()); }
  int64_t num_keys() const { return GetSize().num_keys; }
  int64_t num_rows() const { return GetSize().num_rows; }

  Ids Find(const Ids& keys) const {
    CallWithArrays arrays(tested_);
    auto* row_ids = arrays.Empty<int64_t>(Size(keys));
    table_->Find(arrays.call(), Size(keys), arrays.Upload(keys), row_ids);
    return arrays.Download(row_ids, Size(keys));
  }

  /// As Find; checks that TryFind does the same or nothing.
  Ids TryFindThenFind(const Ids& keys) const {
    CallWithArrays arrays(tested_);
    auto* row_ids = arrays.Empty<int64_t>(Size(keys));
    const Ids before = arrays.Download(row_ids, Size(keys));
    const bool is_done = table_->TryFind(arrays.call(), Size(keys), arrays.Upload(keys), row_ids);
    const Ids after = arrays.Download(row_ids, Size(keys));
    if (is_done) return after;
    CHECK_TRUE(after == before);
    return Find(keys);
  }

  Ids FindOrInsert(const Ids& keys, bool are_distinct = false, const Floats& rows = {}) const {
    CallWithArrays arrays(tested_);
    auto* row_ids = arrays.Empty<int64_t>(Size(keys));
    table_->FindOrInsert(arrays.call(),
                         {Size(keys), arrays.Upload(keys), are_distinct,
                          rows.empty() ? nullptr : arrays.Upload(rows)},
                         planes_, row_ids);
    return arrays.Download(row_ids, Size(keys));
  }

  AppendedKeys Append(const Ids& keys) const {
    CallWithArrays arrays(tested_);
    auto* buffer = arrays.Empty<int64_t>(Size(keys));
    return table_->Append(arrays.call(), Size(keys), arrays.Upload(keys), buffer);
  }

  Floats Gather(const Ids& keys) const {
    CallWithArrays arrays(tested_);
    const int64_t count = Size(keys) * options().dim;
    auto* out = arrays.Empty<float>(count);
    table_->GatherRows(arrays.call(), Size(keys), arrays.Upload(keys), *rows_, out);
    return arrays.Download(out, count);
  }

  int64_t Erase(const Ids& keys) const {
    CallWithArrays arrays(tested_);
    return table_->Erase(arrays.call(), Size(keys), arrays.Upload(keys));
  }

  int64_t Evict(const Ids& keys) const {
    CallWithArrays arrays(tested_);
    return table_->Evict(arrays.call(), Size(keys), arrays.Upload(keys));
  }
  void ReturnRows(int64_t num_rows) const { table_->ReturnRows(*tested_.NewCall(), num_rows); }

  struct Entries {
    Ids keys;
    Ids row_ids;
  };
  Entries Export() const {
    CallWithArrays arrays(tested_);
    const TableEntries entries = table_->Export(arrays.call());
    return {arrays.Download(entries.keys, entries.count),
            arrays.Download(entries.row_ids, entries.count)};
  }

  Entries ExportRows(int64_t first_row, int64_t num_rows) const {
    CallWithArrays arrays(tested_);
    auto* keys = arrays.Empty<int64_t>(num_rows);
    auto* row_ids = arrays.Empty<int64_t>(num_rows);
    const int64_t count = table_->ExportRows(arrays.call(), first_row, num_rows, keys, row_ids);
    return {arrays.Download(keys, count), arrays.Download(row_ids, count)};
  }

  void Reserve(int64_t num_keys) const { table_->Reserve(*tested_.NewCall(), num_keys, planes_); }
  void Clear() const { table_->Clear(*tested_.NewCall()); }
  void InsertAll() const { table_->InsertAll(*tested_.NewCall(), planes_); }
  int64_t FirstWithoutRow(const Ids& row_ids) const {
    CallWithArrays arrays(tested_);
    return table_->FirstWithoutRow(arrays.call(), Size(row_ids), arrays.Upload(row_ids));
  }

  Floats Row(int64_t row_id) const { return Read(*rows_, row_id); }
  Floats Slot(int64_t row_id) const { return Read(*slot_, row_id); }
  void WriteRow(int64_t row_id, float value) const {
    const std::unique_ptr<Call> call = tested_.NewCall();
    CallWithArrays arrays(tested_);
    tested_.engine.ScatterRows(*call, 1, arrays.Upload(Ids{row_id}),
                               arrays.Upload(Floats(static_cast<size_t>(options().dim), value)),
                               rows_->data());
    tested_.engine.Fill(*call, slot_->data().From(row_id).As<float>(), kSlotWidth, value);
  }

  Floats FirstValueOf(int64_t key) const {
    Floats row(static_cast<size_t>(options().dim));
    WriteFirstValue(options().first_value, key, options().dim, row.data());
    return row;
  }
  /// The row and its slot have their initial contents.
  void CheckIsFresh(int64_t key, int64_t row_id) const {
    CHECK_TRUE(Row(row_id) == FirstValueOf(key));
    CHECK_TRUE(Slot(row_id) == Floats(kSlotWidth, kSlotValue));
    CallWithArrays arrays(tested_);
    const auto* salt = salts_->data().From(row_id).As<const Bfloat16>();
    CHECK_EQ(arrays.Download(salt, 1)[0].bits, SaltOf(key).bits);
  }

 private:
  Floats Read(const Plane& plane, int64_t row_id) const {
    CallWithArrays arrays(tested_);
    return arrays.DownloadRows(plane.data().From(row_id), 1);
  }

  const TestedEngine& tested_;
  std::shared_ptr<Table> table_;
  std::shared_ptr<Plane> rows_;
  std::shared_ptr<Plane> slot_;
  std::shared_ptr<Plane> salts_;
  Planes planes_;
};

}  // namespace sok::testing
