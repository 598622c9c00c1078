// SPDX-License-Identifier: Apache-2.0
// Rows in an engine's memory, with the type of their numbers.
#pragma once

#include <cstdint>

#include "ops/base/error.h"
#include "ops/base/halves.h"
#include "ops/base/host_device.h"
#include "ops/base/names.h"

namespace sok {

class CachedFile;

/// The type of stored or sent numbers. What is computed with them is float32.
enum class Element { kFloat32, kBfloat16, kFloat16 };

constexpr Named<Element> kElements[] = {
    {"float32", Element::kFloat32},
    {"bfloat16", Element::kBfloat16},
    {"float16", Element::kFloat16},
};

constexpr int64_t ElementBytes(Element element) { return element == Element::kFloat32 ? 4 : 2; }

/// Rows 0, 1, 2, ... of `width` numbers each. The memory is the owner's.
struct RowsView {
  void* data = nullptr;
  Element element = Element::kFloat32;
  int64_t width = 0;
  CachedFile* file = nullptr;  // behind `data`, if the rows are in one

  int64_t row_bytes() const { return width * ElementBytes(element); }
  template <typename Number>
  SOK_HOST_DEVICE Number* As() const {
    return static_cast<Number*>(data);
  }
  /// The rows from `row` on.
  RowsView From(int64_t row) const { return Skip(row * width); }
  /// The rows without their first `column` numbers; rows are as far apart as before.
  RowsView FromColumn(int64_t column) const { return Skip(column); }

 private:
  RowsView Skip(int64_t numbers) const {
    return {static_cast<char*>(data) + numbers * ElementBytes(element), element, width, file};
  }
};

/// Rows of memory that is no plane.
inline RowsView FloatRows(const float* data, int64_t width) {
  return {const_cast<float*>(data), Element::kFloat32, width};
}

/// The numbers of rows that must be float32. Throws kInvalidArgument.
inline float* FloatsOf(const RowsView& view) {
  if (view.element != Element::kFloat32) {
    Throw(ErrorCode::kInvalidArgument, "rows must be float32, got ",
          kElements[static_cast<int>(view.element)].name);
  }
  return view.As<float>();
}

/// How many numbers are finite and beyond the largest of the element, which they become.
inline int64_t NumClamped(Element element, int64_t count, const float* numbers) {
  if (element != Element::kFloat16) return 0;
  int64_t total = 0;
  for (int64_t i = 0; i < count; ++i) total += IsBeyondHalf(numbers[i]) ? 1 : 0;
  return total;
}

/// Calls body(rows), where rows points at numbers of the view's element.
template <typename Body>
void WithElement(const RowsView& view, Body&& body) {
  switch (view.element) {
    case Element::kFloat32:
      return body(view.template As<float>());
    case Element::kBfloat16:
      return body(view.template As<Bfloat16>());
    case Element::kFloat16:
      return body(view.template As<Float16>());
  }
}

}  // namespace sok
