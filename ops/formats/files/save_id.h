// SPDX-License-Identifier: Apache-2.0
// Ids of saves: part of the names of files and folders until a save is complete.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace sok {

inline constexpr size_t kSaveIdDigits = 24;

/// Unique among all saves, including those of processes started at the same instant. Begins with
/// digits of the machine.
std::string NewSaveId();

bool IsSaveId(const std::string& text);

/// {what, id} of a temporary name, <what><mark><id>; both empty if it is none.
std::pair<std::string, std::string> WhatAndId(const std::string& name, const std::string& mark);

/// Whether this machine made the id, since it was started: locks are only visible within one
/// machine.
bool IsOfThisMachine(const std::string& id);

}  // namespace sok
