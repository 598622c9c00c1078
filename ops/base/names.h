// SPDX-License-Identifier: Apache-2.0
// Lists of things with names, each written once: attributes of ops and parsers come from them.
#pragma once

#include <string>

#include "ops/base/error.h"

namespace sok {

template <typename Value>
struct Named {
  const char* name;
  Value value;
};

/// The names of a list's items, each with a field `name`: "'first', 'second'".
template <typename List>
std::string NamesOf(const List& list) {
  std::string names;
  for (const auto& item : list) {
    names += (names.empty() ? "'" : ", '") + std::string(item.name) + "'";
  }
  return names;
}

/// The item of this name. Throws kInvalidArgument, with `what` is named, if there is none.
template <typename List>
const auto& ItemNamed(const List& list, const char* what, const std::string& name) {
  for (const auto& item : list) {
    if (name == item.name) return item;
  }
  Throw(ErrorCode::kInvalidArgument, what, " must be one of ", NamesOf(list), ", got '", name, "'");
}

}  // namespace sok
