// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/contents/columns.h"

#include <algorithm>
#include <mutex>
#include <type_traits>

namespace sok {
namespace {

class PlaneSource : public ColumnSource {
 public:
  PlaneSource(RowMover mover, Element element) : mover_(std::move(mover)), element_(element) {}

  void ToHost(int64_t count, const int64_t* row_ids, void* to) override {
    if (element_ == Element::kFloat32)
      return mover_.ToHost(count, row_ids, static_cast<float*>(to));
    std::vector<float> rows(static_cast<size_t>(count * mover_.width()));
    mover_.ToHost(count, row_ids, rows.data());
    WithElement({to, element_, mover_.width()}, [&](auto* numbers) {
      for (size_t i = 0; i < rows.size(); ++i) RoundTo(rows[i], kToNearest, numbers + i);
    });
  }
  void FromHost(int64_t count, const int64_t* row_ids, const void* from,
                int64_t row_bytes) override {
    const int64_t width = mover_.width(), given = row_bytes / ElementBytes(element_);
    const float* floats = Floats(count * given, from);
    if (given == width) return mover_.FromHost(count, row_ids, floats);
    std::vector<float> rows(static_cast<size_t>(count * width));
    mover_.ToHost(count, row_ids, rows.data());
    for (int64_t i = 0; i < count; ++i)
      std::copy_n(floats + i * given, std::min(given, width), rows.data() + i * width);
    mover_.FromHost(count, row_ids, rows.data());
  }
  void FromHostInOrder(int64_t count, int64_t first_row, const void* from) override {
    if (mover_.rows().element == element_) return mover_.FromHostInOrder(count, first_row, from);
    const float* floats = Floats(count * mover_.width(), from);
    WithElement(mover_.rows(), [&](auto* plane) {
      std::vector<std::remove_pointer_t<decltype(plane)>> rows(
          static_cast<size_t>(count * mover_.width()));
      for (size_t i = 0; i < rows.size(); ++i) RoundTo(floats[i], kToNearest, &rows[i]);
      mover_.FromHostInOrder(count, first_row, rows.data());
    });
  }
  void ExpectRows(int64_t num_rows) override { mover_.ExpectRows(num_rows); }
  void SetAbsent(RowMover::Absent absent) override { mover_.SetAbsent(std::move(absent)); }
  RowsView rows() const override {
    return mover_.rows().element == element_ ? mover_.rows() : RowsView{};
  }
  int64_t num_clamped() const override { return num_clamped_; }

 private:
  /// Numbers of the host, valid until the next call.
  const float* Floats(int64_t num_numbers, const void* from) {
    const auto* floats = static_cast<const float*>(from);
    if (element_ != Element::kFloat32) {
      floats_.resize(static_cast<size_t>(num_numbers));
      WithElement({const_cast<void*>(from), element_, mover_.width()}, [&](const auto* numbers) {
        for (size_t i = 0; i < floats_.size(); ++i) floats_[i] = Widened(numbers[i]);
      });
      floats = floats_.data();
    }
    num_clamped_ += NumClamped(mover_.rows().element, num_numbers, floats);
    return floats;
  }

  RowMover mover_;
  const Element element_;
  std::vector<float> floats_;
  int64_t num_clamped_ = 0;
};

class HistorySource : public ColumnSource {
 public:
  /// `place`: of its number in kKeyNumbers.
  HistorySource(OpCall& call, KeyHistory& history, size_t place, int64_t latest)
      : call_(call), history_(history), place_(place), latest_(latest) {}

  void ToHost(int64_t count, const int64_t* row_ids, void* to) override {
    std::vector<int64_t> buffer;
    const int64_t* rows = call_.OnHost(row_ids, count, &buffer);
    const std::lock_guard<FairSharedMutex> lock(history_.mutex());
    for (int64_t i = 0; i < count; ++i)
      static_cast<int64_t*>(to)[i] = history_.NumberOfRow(rows[i], place_);
  }
  void FromHost(int64_t count, const int64_t* row_ids, const void* from,
                int64_t /*row_bytes*/) override {
    std::vector<int64_t> buffer;
    const int64_t* rows = call_.OnHost(row_ids, count, &buffer);
    Set(count, from, [&](int64_t i) { return rows[i]; });
  }
  void FromHostInOrder(int64_t count, int64_t first_row, const void* from) override {
    Set(count, from, [&](int64_t i) { return first_row + i; });
  }

 private:
  template <typename RowAt>
  void Set(int64_t count, const void* from, const RowAt& row_at) {
    const KeyNumber& column = kKeyNumbers[place_];
    const std::lock_guard<FairSharedMutex> lock(history_.mutex());
    const KeySeen without = history_.OfRow(INT64_MAX);  // of a row that has none
    for (int64_t i = 0; i < count; ++i) {
      const int64_t number = static_cast<const int64_t*>(from)[i];
      KeySeen seen = history_.OfRow(row_at(i));
      if (number < 0) {  // it was not recorded
        seen.*column.field = without.*column.field;
      } else {
        seen.*column.field = column.with_limit ? std::min(number, latest_) : number;
      }
      history_.SetRow(row_at(i), seen);
      history_.NoteStep(seen.step);
    }
  }

  OpCall& call_;
  KeyHistory& history_;
  const size_t place_;
  const int64_t latest_;
};

}  // namespace

int64_t Column::RowsAtOnce() const {
  return RowsOfPart(std::max<int64_t>(1, row_bytes() / static_cast<int64_t>(sizeof(float))));
}

tf::TensorShape Column::ShapeOf(int64_t num_rows) const {
  tf::TensorShape shape({num_rows});
  shape.AppendShape(row_shape);
  return shape;
}

Column ColumnOf(std::string title, RowMover rows, Element element) {
  const tf::TensorShape row_shape({rows.width()});
  return {std::move(title), DataTypeOf(element), row_shape,
          std::make_unique<PlaneSource>(std::move(rows), element)};
}

std::vector<Column> ColumnsOf(OpCall& call, const TableView& view, Element rows, int64_t latest) {
  const int64_t most = view.options().capacity;
  std::vector<Column> columns;
  columns.push_back(ColumnOf("", RowMover(call, *view.planes.rows, most), rows));
  for (const size_t place : view.places) {
    columns.push_back(
        ColumnOf("", RowMover(call, *view.planes.slots[place].plane, most), Element::kFloat32));
  }
  if (view.history == nullptr) return columns;
  for (size_t place = 0; place < kNumKeyNumbers; ++place) {
    columns.push_back({kKeyNumbers[place].name, tf::DT_INT64, tf::TensorShape({}),
                       std::make_unique<HistorySource>(call, *view.history, place, latest)});
  }
  return columns;
}

}  // namespace sok
