// SPDX-License-Identifier: Apache-2.0
// The factors of rows in bags, as an enum for which loops are compiled.
#pragma once

#include <type_traits>

#include "ops/engine/bags.h"

namespace sok {

enum class BagFactors {
  kOnes,
  kOfSizes,   // 1 / size of the bag
  kGiven,     // Bags::factors
  kWeighted,  // weights, and a factor of any kind
};

template <BagFactors kFactors>
using BagFactorsConstant = std::integral_constant<BagFactors, kFactors>;

/// Calls body(factors), where factors is the BagFactorsConstant of these bags.
template <typename Body>
void WithBagFactors(const Bags& bags, Body&& body) {
  if (bags.weights != nullptr) return body(BagFactorsConstant<BagFactors::kWeighted>{});
  if (bags.factors != nullptr) return body(BagFactorsConstant<BagFactors::kGiven>{});
  if (bags.combiner == Combiner::kMean) return body(BagFactorsConstant<BagFactors::kOfSizes>{});
  return body(BagFactorsConstant<BagFactors::kOnes>{});
}

}  // namespace sok
