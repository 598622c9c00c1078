// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/rows/apply_rule.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "ops/base/wide_vectors.h"
#include "ops/cpu/rows/fetch_rows.h"
#include "ops/cpu/rows/fixed_dim.h"
#include "ops/cpu/rows/narrow_rows.h"
#include "ops/cpu/rows/row_numbers.h"

namespace sok {
namespace {

constexpr int32_t kNoGradient = -1;

int64_t ApplyCost(int num_states, int64_t dim) {
  return 10 + num_states + dim * (1 + num_states) / 6;
}

/// Stands for the gradient of a row that has none.
struct WithoutGradient {};

SOK_INLINE float At(const float* gradient, int64_t column) { return gradient[column]; }
SOK_INLINE float At(WithoutGradient, int64_t) { return 0.0f; }

/// `first` and `second` are those of the row, or, of a state of the row, `first` is it.
template <typename Rule, typename Dim, typename Gradient>
SOK_INLINE float MeasureOfRow(const Rule& rule, Dim dim, Gradient gradient, const float* row,
                              float* first, const float* second) {
  if constexpr (!kMeasuresRows<Rule>) return 0.0f;
  if constexpr (kMeasuresRows<Rule>) {
    return MeasureRow(rule, dim, first, [=](int64_t column) SOK_ALWAYS_INLINE {
      float states[kMaxStates] = {};
      if constexpr (kValueStates<Rule> > 0) states[0] = first[column];
      if constexpr (kValueStates<Rule> > 1) states[1] = second[column];
      return rule.Measure(At(gradient, column), row[column], states);
    });
  }
}

template <typename Rule, typename Dim, typename Gradient>
SOK_INLINE void UpdateRow(const Rule& rule, Dim dim, Gradient gradient, float* __restrict row,
                          float* __restrict first, float* __restrict second) {
  const int64_t size = dim;
  const float measure = MeasureOfRow(rule, dim, gradient, row, first, second);
  SOK_FOR_COLUMNS
  for (int64_t column = 0; column < size; ++column) {
    float states[kMaxStates] = {};
    if constexpr (kValueStates<Rule> > 0) states[0] = first[column];
    if constexpr (kValueStates<Rule> > 1) states[1] = second[column];
    float value = row[column];
    if constexpr (std::is_same_v<Gradient, WithoutGradient>) {
      ApplyWithoutGradient(rule, value, states, measure);
    } else {
      ApplyToValue(rule, gradient[column], value, states, measure);
    }
    row[column] = value;
    if constexpr (kValueStates<Rule> > 0) first[column] = states[0];
    if constexpr (kValueStates<Rule> > 1) second[column] = states[1];
  }
}

/// Positions [begin, end) of a batch that ends at `last`, and where their rows are as floats: in
/// the plane, by row id, or in a buffer, in order. Each is a type of its own: a branch for each row
/// costs Adam on float32 4 to 5 % (dims 64 and 128). Pass it by value: through a reference, GCC 12
/// drops the stores of gradient descent into the buffer.
template <bool kInOrder>
struct FloatsOfRange {
  static constexpr bool kAreInOrder = kInOrder;
  int64_t begin;
  int64_t end;
  int64_t last;
  float* rows;
};

/// The planes of a rule, for rows of a dim known to the compiler.
template <typename Rule, typename Dim, typename Range>
class RowsOf {
 public:
  RowsOf(const Rule& rule, Dim dim, const RulePlanes& planes, Range range)
      : rule_(rule), dim_(dim), range_(range), states_(planes.states) {
    for (int s = 1; s < Rule::kStates; ++s) {
      are_side_by_side_ &= states_[s].data == states_[0].FromColumn(s * planes.dim()).data;
    }
  }

  /// Cache lines of a row with its states.
  int64_t num_lines() const {
    const int64_t size = dim_;
    const int64_t width = StateWidth(rule_, size);
    return NumLines(size) +
           (are_side_by_side_ ? NumLines(Rule::kStates * width) : Rule::kStates * NumLines(width));
  }

  SOK_INLINE void Prefetch(int64_t row_id) const {
    const int64_t size = dim_;
    if (!Range::kAreInOrder) PrefetchRow(range_.rows + row_id * size, size);
    if (Rule::kStates == 0) return;
    const int64_t width = StateWidth(rule_, size);
    if (are_side_by_side_) return PrefetchRow(State(0, row_id), Rule::kStates * width);
    for (int s = 0; s < Rule::kStates; ++s) PrefetchRow(State(s, row_id), width);
  }

  template <typename Gradient>
  SOK_INLINE void Update(int64_t i, int64_t row_id, Gradient gradient) const {
    const int64_t place = Range::kAreInOrder ? i - range_.begin : row_id;
    UpdateRow(rule_, dim_, gradient, range_.rows + place * int64_t{dim_},
              Rule::kStates > 0 ? State(0, row_id) : nullptr,
              Rule::kStates > 1 ? State(1, row_id) : nullptr);
  }

 private:
  SOK_INLINE float* State(int s, int64_t row_id) const {
    return states_[s].As<float>() + row_id * states_[s].width;
  }

  const Rule rule_;
  const Dim dim_;
  const Range range_;
  const RowsView* const states_;
  bool are_side_by_side_ = true;
};

template <typename Rule, typename Dim, typename Range>
SOK_WIDE_VECTORS void UpdateRange(const Rule& rule, Dim dim, const RulePlanes& planes, Range range,
                                  const int64_t* row_ids, const float* gradients) {
  const int64_t size = dim;
  const RowsOf<Rule, Dim, Range> rows(rule, dim, planes, range);
  const int64_t ahead = PrefetchDistance(rows.num_lines());
  for (int64_t i = range.begin; i < range.end; ++i) {
    if (i + ahead < range.last) rows.Prefetch(row_ids[i + ahead]);
    if (row_ids[i] >= 0) rows.Update(i, row_ids[i], gradients + i * size);
  }
}

/// Updates the rows at these positions; `rows_in_use` as in ApplyToRowsInUse.
template <typename Rule, typename Dim, typename Range>
SOK_WIDE_VECTORS void MoveRange(const Rule& rule, Dim dim, const RulePlanes& planes, Range range,
                                const int64_t* rows_in_use, const int32_t* gradient_of,
                                const float* gradients) {
  const int64_t size = dim;
  const RowsOf<Rule, Dim, Range> rows(rule, dim, planes, range);
  for (int64_t place = range.begin; place < range.end; ++place) {
    const int64_t row_id = rows_in_use ? rows_in_use[place] : place;
    const int64_t gradient = gradient_of[place];
    if (gradient == kNoGradient) {
      rows.Update(place, row_id, WithoutGradient());
    } else {
      rows.Update(place, row_id, gradients + gradient * size);
    }
  }
}

/// Assigns gradients to rows.
struct GradientsByPlace {
  std::vector<int32_t> of_place;  // [num_rows in use]: index of the gradient, or kNoGradient
  std::vector<int64_t> others;    // indices of gradients for rows that are not in use
};

GradientsByPlace FindGradients(int64_t num_rows, const int64_t* rows_in_use, int64_t num_gradients,
                               const int64_t* row_ids) {
  GradientsByPlace gradients;
  gradients.of_place.assign(static_cast<size_t>(num_rows), kNoGradient);
  for (int64_t i = 0; i < num_gradients; ++i) {
    if (row_ids[i] < 0) continue;
    const int64_t place =
        rows_in_use
            ? std::lower_bound(rows_in_use, rows_in_use + num_rows, row_ids[i]) - rows_in_use
            : row_ids[i];
    if (place >= num_rows || (rows_in_use && rows_in_use[place] != row_ids[i])) {
      gradients.others.push_back(i);
    } else {
      gradients.of_place[static_cast<size_t>(place)] = static_cast<int32_t>(i);
    }
  }
  return gradients;
}

/// Calls update(range) for positions [begin, end) of the rows `row_ids`. Rows of two bytes are
/// widened, updated and rounded a group at a time: rules have loops for floats alone, and the loops
/// that convert, of few rows, use the widest vectors.
template <typename Update>
void ForFloats(const RulePlanes& planes, const int64_t* row_ids, int64_t begin, int64_t end,
               const Update& update) {
  WithElement(planes.rows, [&](auto* plane) {
    using Number = std::remove_pointer_t<decltype(plane)>;
    if constexpr (kIsFloat<Number>) {
      update(FloatsOfRange<false>{begin, end, end, plane});
    } else {
      const int64_t group = RowsOfGroup(planes.dim());
      std::vector<float> floats(static_cast<size_t>(group * planes.dim()));
      for (; begin < end; begin += group) {
        const RowRange rows{row_ids, begin, std::min(begin + group, end)};
        ReadRows(plane, planes.dim(), rows, end, planes.rounding.salts, floats.data());
        update(FloatsOfRange<true>{rows.begin, rows.end, end, floats.data()});
        WriteRows(floats.data(), planes.dim(), rows, planes.rounding, plane);
      }
    }
  });
}

/// Calls body(rule, dim, range) on threads, with the concrete type of the rule and, for common
/// dims, a dim known to the compiler; range as of ForFloats.
template <typename Body>
void ForRows(Executor& executor, const Rule& any_rule, const RulePlanes& planes,
             const int64_t* row_ids, int64_t num_rows, const Body& body) {
  std::visit(
      [&](const auto& rule) {
        const int64_t cost = ApplyCost(rule.kStates, planes.dim());
        executor.ParallelFor(num_rows, cost, [&](int64_t begin, int64_t end) {
          WithFixedDim(planes.dim(), [&](auto dim) {
            ForFloats(planes, row_ids, begin, end,
                      [&](const auto& range) { body(rule, dim, range); });
          });
        });
      },
      any_rule);
}

}  // namespace

void ApplyToRows(Executor& executor, const Rule& rule, const RulePlanes& planes,
                 int64_t num_gradients, const int64_t* row_ids, const float* gradients) {
  PlanesToFetch updated(planes.rows);
  for (const RowsView& state : planes.states) updated.Add(state);
  updated.Fetch(num_gradients, row_ids, RowUse::kUpdate);
  ForRows(executor, rule, planes, row_ids, num_gradients,
          [&](const auto& one_rule, auto dim, const auto& range) {
            UpdateRange(one_rule, dim, planes, range, row_ids, gradients);
          });
}

void ApplyToRowsInUse(Executor& executor, const Rule& rule, const RulePlanes& planes,
                      int64_t num_rows, const int64_t* rows_in_use, int64_t num_gradients,
                      const int64_t* row_ids, const float* gradients) {
  const GradientsByPlace by_place = FindGradients(num_rows, rows_in_use, num_gradients, row_ids);
  ForRows(executor, rule, planes, rows_in_use, num_rows,
          [&](const auto& one_rule, auto dim, const auto& range) {
            MoveRange(one_rule, dim, planes, range, rows_in_use, by_place.of_place.data(),
                      gradients);
          });
  for (const int64_t i : by_place.others) {
    ApplyToRows(executor, rule, planes, 1, row_ids + i, gradients + i * planes.dim());
  }
}

}  // namespace sok
