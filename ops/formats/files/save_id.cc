// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/files/save_id.h"

#include <fstream>
#include <functional>
#include <iomanip>
#include <random>
#include <sstream>

namespace sok {
namespace {

constexpr size_t kMachineDigits = 8;

const std::string& MachineDigits() {
  static const std::string kDigits = [] {
    std::string boot_id = "unknown";
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
    std::ostringstream digits;
    digits << std::hex << std::setfill('0') << std::setw(kMachineDigits)
           << (std::hash<std::string>()(boot_id) & 0xffffffff);
    return digits.str();
  }();
  return kDigits;
}

}  // namespace

std::string NewSaveId() {
  std::random_device random;
  std::ostringstream id;
  id << MachineDigits() << std::hex << std::setfill('0');
  for (size_t digits = kMachineDigits; digits < kSaveIdDigits; digits += 8)
    id << std::setw(8) << random();
  return id.str();
}

bool IsSaveId(const std::string& text) {
  return text.size() == kSaveIdDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::pair<std::string, std::string> WhatAndId(const std::string& name, const std::string& mark) {
  const size_t at = name.rfind(mark);
  if (at == std::string::npos || at == 0) return {};
  std::string id = name.substr(at + mark.size());
  if (!IsSaveId(id)) return {};
  return {name.substr(0, at), std::move(id)};
}

bool IsOfThisMachine(const std::string& id) {
  return id.compare(0, kMachineDigits, MachineDigits()) == 0;
}

}  // namespace sok
