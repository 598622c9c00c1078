// SPDX-License-Identifier: Apache-2.0
// Every rule on every engine: compared with formulas in double precision, and the CPU's bits.
#include <algorithm>
#include <cmath>

#include "ops/tests/conformance/random_batch.h"
#include "ops/tests/conformance/tested_rules.h"

namespace sok {
namespace {

using testing::CallWithArrays;
using testing::CheckNear;
using testing::Floats;
using testing::Ids;
using testing::OnAllEnginesWithFloats;
using testing::Random;
using testing::RowOfDoubles;
using testing::Rules;
using testing::Size;
using testing::TestedEngine;
using testing::TestedRule;
using testing::Words;

constexpr int64_t kNumRows = 300;
constexpr uint64_t kStream = 7;
const Ids kGradientRows = {7, 0, 299, kNoRow, 150, 151, 3};

struct Case {
  int64_t dim;
  bool are_states_side_by_side;
  bool rows_in_use;            // all rows in use, not only the given ones
  bool use_hash_index;         // else every third row and the last are in use
  bool is_stochastic = false;  // the rounding of rows of two bytes
};

struct Values {
  Floats rows;    // [kNumRows, dim]
  Floats states;  // [kNumRows, kStates, StateWidth]
};

bool IsInUse(const Case& of_case, int64_t row) {
  return of_case.use_hash_index || row % 3 == 0 || row == kNumRows - 1;
}

Values FirstOnes(const TestedRule& rule, const Case& of_case) {
  return {testing::AsElements(Random(kNumRows * of_case.dim, 1)),
          Random(kNumRows * rule.state_width(of_case.dim) * rule.num_states(), 2, 0.1f)};
}

Floats Gradients(const Case& of_case) { return Random(Size(kGradientRows) * of_case.dim, 3); }

void RoundEach(Element element, RowDraws draws, int64_t dim, float* row) {
  WithElement({nullptr, element, 1}, [&](auto* of_type) {
    std::remove_pointer_t<decltype(of_type)> number;
    for (int64_t column = 0; column < dim; ++column) {
      RoundTo(row[column], draws.At(static_cast<uint32_t>(column)), &number);
      row[column] = Widened(number);
    }
  });
}

/// A table with keys for the rows in use, and its planes with these values, or with other rows.
class RuleTable {
 public:
  RuleTable(const TestedEngine& engine, const TestedRule& rule, const Case& of_case,
            const Floats* rows = nullptr)
      : engine_(engine),
        arrays_(engine),
        num_states_(rule.num_states()),
        state_width_(rule.state_width(of_case.dim)),
        case_(of_case),
        table_(engine.engine.MakeTable(
            testing::Options(of_case.use_hash_index, kNumRows, of_case.dim))) {
    Ids keys;
    for (int64_t row = 0; row < kNumRows; ++row) {
      if (IsInUse(of_case, row)) keys.push_back(row);
    }
    table_->FindOrInsert(arrays_.call(), {Size(keys), arrays_.Upload(keys), true}, {},
                         arrays_.Empty<int64_t>(Size(keys)));
    const Values values = FirstOnes(rule, of_case);
    planes_.rows = arrays_.UploadRows(rows != nullptr ? *rows : values.rows, of_case.dim);
    if (of_case.is_stochastic) planes_.rounding = {UploadSalts(), kStream};
    const int64_t row_states = num_states_ * state_width_;
    const RowsView side_by_side = FloatRows(arrays_.Upload(values.states), row_states);
    for (int s = 0; s < num_states_; ++s) {
      planes_.states[s] = side_by_side.FromColumn(s * state_width_);
      if (!of_case.are_states_side_by_side) {
        planes_.states[s] = FloatRows(arrays_.Upload(OfState(values.states, s)), state_width_);
      }
    }
  }

  void Apply(const Rule& rule, const Ids& row_ids, const Floats& gradients) {
    const int64_t* ids = arrays_.Upload(row_ids);
    const float* g = arrays_.Upload(gradients);
    if (case_.rows_in_use) {
      table_->ApplyToRowsInUse(arrays_.call(), rule, planes_, Size(row_ids), ids, g);
    } else {
      table_->ApplyToRows(arrays_.call(), rule, planes_, Size(row_ids), ids, g);
    }
  }

  Values Read() {
    Values values{arrays_.DownloadRows(planes_.rows, kNumRows),
                  Floats(static_cast<size_t>(kNumRows * state_width_ * num_states_))};
    for (int s = 0; s < num_states_; ++s) {
      const auto& state = planes_.states[s];
      for (int64_t row = 0; row < kNumRows; ++row) {
        const Floats of_row = arrays_.Download(state.From(row).As<float>(), state_width_);
        std::copy(of_row.begin(), of_row.end(),
                  values.states.begin() + (row * num_states_ + s) * state_width_);
      }
    }
    return values;
  }

 private:
  const Bfloat16* UploadSalts() {
    std::vector<Bfloat16> salts;
    for (int64_t row = 0; row < kNumRows; ++row) salts.push_back(SaltOf(row));
    return arrays_.Upload(salts);
  }
  Floats OfState(const Floats& states, int s) const {
    Floats of_one;
    for (int64_t row = 0; row < kNumRows; ++row) {
      const auto begin = states.begin() + (row * num_states_ + s) * state_width_;
      of_one.insert(of_one.end(), begin, begin + state_width_);
    }
    return of_one;
  }

  const TestedEngine& engine_;
  CallWithArrays arrays_;
  const int num_states_;
  const int64_t state_width_;
  const Case case_;
  std::shared_ptr<Table> table_;
  RulePlanes planes_;
};

Values Apply(const TestedEngine& engine, const TestedRule& rule, const Case& of_case) {
  RuleTable table(engine, rule, of_case);
  table.Apply(rule.rule, kGradientRows, Gradients(of_case));
  return table.Read();
}

void ApplyByValue(const TestedRule& rule, RowOfDoubles* row) {
  for (size_t c = 0; c < row->values.size(); ++c) {
    double of_value[kMaxStates] = {};
    for (size_t s = 0; s < row->states.size(); ++s) of_value[s] = row->states[s][c];
    rule.formula(row->gradients[c], row->values[c], of_value);
    for (size_t s = 0; s < row->states.size(); ++s) row->states[s][c] = of_value[s];
  }
}

void CheckFormula(const TestedRule& rule, const Case& of_case, const Values& actual) {
  const Values first = FirstOnes(rule, of_case);
  const Floats gradients = Gradients(of_case);
  std::vector<double> rows(first.rows.begin(), first.rows.end());
  std::vector<double> states(first.states.begin(), first.states.end());
  for (int64_t row = 0; row < kNumRows; ++row) {
    const auto found = std::find(kGradientRows.begin(), kGradientRows.end(), row);
    const bool has_gradient = found != kGradientRows.end();
    if (!has_gradient && !(of_case.rows_in_use && IsInUse(of_case, row))) continue;
    const auto dim = static_cast<size_t>(of_case.dim);
    const auto begin = static_cast<size_t>(row) * dim;
    RowOfDoubles of_row{std::vector<double>(dim), {&rows[begin], &rows[begin] + dim}, {}};
    if (has_gradient) {
      const auto number = static_cast<size_t>(found - kGradientRows.begin());
      std::copy_n(&gradients[number * dim], dim, of_row.gradients.begin());
    }
    const auto num_states = static_cast<size_t>(rule.num_states());
    const auto width = static_cast<size_t>(rule.state_width(of_case.dim));
    double* const states_of_row = states.data() + static_cast<size_t>(row) * num_states * width;
    for (size_t s = 0; s < num_states; ++s) {
      of_row.states.emplace_back(states_of_row + s * width, states_of_row + (s + 1) * width);
    }
    rule.row_formula ? rule.row_formula(&of_row) : ApplyByValue(rule, &of_row);
    std::copy_n(of_row.values.begin(), dim, &rows[begin]);
    for (size_t s = 0; s < num_states; ++s) {
      std::copy_n(of_row.states[s].begin(), width, states_of_row + s * width);
    }
  }
  CheckNear(actual.rows, rows);
  CheckNear(actual.states, states);
}

SOK_TEST(RulesFollowTheirFormulasWithTheSameBits) {
  const TestedEngine cpu{"CPU", CpuEngine(), SerialExecutor()};
  for (const TestedRule& rule : Rules()) {
    std::cerr << "  " << rule.name << std::endl;
    for (const int64_t dim : {1, 5, 6, 16, 64}) {
      for (const bool are_states_side_by_side : {true, false}) {
        for (const bool rows_in_use : {false, true}) {
          for (const bool use_hash_index : {true, false}) {
            const Case of_case{dim, are_states_side_by_side, rows_in_use, use_hash_index};
            const Values of_cpu = Apply(cpu, rule, of_case);
            CheckFormula(rule, of_case, of_cpu);
            for (const TestedEngine& engine : testing::TestedEngines()) {
              const Values values = Apply(engine, rule, of_case);
              CHECK_TRUE(values.rows == of_cpu.rows);
              CHECK_TRUE(values.states == of_cpu.states);
            }
          }
        }
      }
    }
  }
}

/// A step on rows of two bytes, read wide, is that on rows of float32 with each number rounded: to
/// nearest, or by what the row's key, the column and the step draw.
SOK_TEST(RulesRoundRowsOfTwoBytes) {
  const TestedEngine cpu{"CPU", CpuEngine(), SerialExecutor()};
  for (const Element element : {Element::kBfloat16, Element::kFloat16}) {
    for (const TestedRule& rule : Rules()) {
      for (const int64_t dim : {1, 6, 16, 20, 64}) {
        for (const bool is_stochastic : {true, false}) {
          for (const bool rows_in_use : {false, true}) {
            for (const bool use_hash_index : {true, false}) {
              const Case of_case{dim, dim > 6, rows_in_use, use_hash_index, is_stochastic};
              testing::ElementUnderTest() = element;
              std::vector<Values> found;
              for (const TestedEngine& engine : testing::TestedEngines()) {
                found.push_back(Apply(engine, rule, of_case));
              }
              Values expected = FirstOnes(rule, of_case);
              const Floats first = expected.rows;
              testing::ElementUnderTest() = Element::kFloat32;
              RuleTable of_floats(cpu, rule, of_case, &first);
              of_floats.Apply(rule.rule, kGradientRows, Gradients(of_case));
              expected = of_floats.Read();
              for (int64_t row = 0; row < kNumRows; ++row) {
                const Bfloat16 salt = SaltOf(row);
                const Rounding rounding{is_stochastic ? &salt : nullptr, kStream};
                RoundEach(element, rounding.OfRow(0), dim,
                          &expected.rows[static_cast<size_t>(row * dim)]);
              }
              for (const Values& values : found) {
                CHECK_TRUE(values.rows == expected.rows);
                CHECK_TRUE(values.states == expected.states);
              }
            }
          }
        }
      }
    }
  }
}

/// The CPU names the row; a device does not wait to report it, and writes nowhere else.
SOK_TEST(GradientsOfNoRowChangeNothing) {
  OnAllEnginesWithFloats([](const TestedEngine& engine) {
    for (const bool rows_in_use : {false, true}) {
      for (const bool use_hash_index : {true, false}) {
        const TestedRule rule = Rules()[1];
        RuleTable table(engine, rule, {4, true, rows_in_use, use_hash_index});
        const Values before = table.Read();
        const Floats gradients(8, 1.0f);
        const Ids row_ids = {1'000'000'000, kNumRows};
        if (engine.engine.IsHostMemory()) {
          CHECK_THROWS(ErrorCode::kInvalidArgument,
                       (Words{"'users'", "row 1000000000", "has 300 rows"}),
                       table.Apply(rule.rule, row_ids, gradients));
          CHECK_TRUE(table.Read().states == before.states);
        } else if (!rows_in_use) {
          table.Apply(rule.rule, row_ids, gradients);
          CHECK_TRUE(table.Read().states == before.states);
        } else {
          table.Apply(rule.rule, row_ids, gradients);
        }
      }
    }
  });
}

/// As in TensorFlow, which multiplies m by beta1 without adding a zero.
SOK_TEST(AdamKeepsTheSignOfZeroWithoutAGradient) {
  OnAllEnginesWithFloats([](const TestedEngine& engine) {
    for (const bool use_hash_index : {true, false}) {
      const auto table = engine.engine.MakeTable(testing::Options(use_hash_index, 10));
      CallWithArrays arrays(engine);
      table->FindOrInsert(arrays.call(), {2, arrays.Upload(Ids{0, 1}), true}, {},
                          arrays.Empty<int64_t>(2));
      RulePlanes planes;
      planes.rows = FloatRows(arrays.Upload(Floats(8, -0.0f)), 4);
      for (RowsView& state : planes.states) {
        state = FloatRows(arrays.Upload(Floats(8, -0.0f)), 4);
      }
      AdamRule adam;
      adam.step_size = adam.beta1 = adam.beta2 = 0.5f;
      adam.epsilon = 0.1f;
      table->ApplyToRowsInUse(arrays.call(), adam, planes, 1, arrays.Upload(Ids{1}),
                              arrays.Upload(Floats(4, 0.0f)));
      const Floats m = arrays.Download(planes.states[0].As<float>(), 8);
      CHECK_TRUE(std::signbit(m[0]) && std::signbit(m[3]));
      CHECK_TRUE(!std::signbit(m[4]) && !std::signbit(m[7]));
      CHECK_TRUE(!std::signbit(arrays.Download(planes.rows.As<float>(), 8)[0]));
    }
  });
}

SOK_TEST(NoGradientsAndNoRows) {
  OnAllEnginesWithFloats([](const TestedEngine& engine) {
    const auto table = engine.engine.MakeTable(testing::Options(true, 10));
    CallWithArrays arrays(engine);
    RulePlanes planes;
    planes.rows = FloatRows(arrays.Upload(Floats(30, 1.0f)), 3);
    const Rule rule = SgdRule{0.5f};
    table->ApplyToRows(arrays.call(), rule, planes, 0, nullptr, nullptr);
    table->ApplyToRowsInUse(arrays.call(), rule, planes, 0, nullptr, nullptr);
    CHECK_TRUE(arrays.Download(planes.rows.As<float>(), 30) == Floats(30, 1.0f));
  });
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
