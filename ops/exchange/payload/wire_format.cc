// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/payload/wire_format.h"

#include <cstring>

#include "ops/base/halves.h"

namespace sok {
namespace {

template <typename Number>
void NarrowEach(const float* from, int64_t count, char* to) {
  for (int64_t i = 0; i < count; ++i) {
    Number number;
    RoundTo(from[i], kToNearest, &number);
    std::memcpy(to + i * 2, &number, sizeof(number));
  }
}

template <typename Number>
void WidenEach(const char* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    Number number;
    std::memcpy(&number, from + i * 2, sizeof(number));
    to[i] = Widened(number);
  }
}

}  // namespace

int64_t Narrow(Element dtype, const float* from, int64_t count, char* to) {
  switch (dtype) {
    case Element::kFloat32:
      if (count > 0) std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return 0;
    case Element::kBfloat16:
      NarrowEach<Bfloat16>(from, count, to);
      return 0;
    case Element::kFloat16:
      NarrowEach<Float16>(from, count, to);
      return NumClamped(dtype, count, from);
  }
  return 0;
}

void Widen(Element dtype, const char* from, int64_t count, float* to) {
  switch (dtype) {
    case Element::kFloat32:
      if (count > 0) std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    case Element::kBfloat16:
      return WidenEach<Bfloat16>(from, count, to);
    case Element::kFloat16:
      return WidenEach<Float16>(from, count, to);
  }
}

}  // namespace sok
