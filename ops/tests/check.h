// SPDX-License-Identifier: Apache-2.0
// A minimal test framework: named tests, checks that print both sides, and a main().
#pragma once

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "ops/base/error.h"

namespace sok::testing {

struct Test {
  const char* name;
  void (*run)();
};

inline std::vector<Test>& Tests() {
  static std::vector<Test> tests;
  return tests;
}

struct Registration {
  Registration(const char* name, void (*run)()) { Tests().push_back({name, run}); }
};

[[noreturn]] inline void Fail(const char* file, int line, const std::string& what) {
  std::cerr << file << ":" << line << ": " << what << std::endl;
  std::exit(1);
}

template <typename Left, typename Right>
void CheckEqual(const char* file, int line, const char* text, const Left& left,
                const Right& right) {
  if (left == right) return;
  std::ostringstream what;
  what.precision(17);
  what << text << ": " << left << " and " << right;
  Fail(file, line, what.str());
}

/// Expects `call` to throw an Error with this code whose message contains all `words`.
template <typename Call>
void CheckThrows(const char* file, int line, ErrorCode code, const std::vector<std::string>& words,
                 Call call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.code() != code) Fail(file, line, std::string("another code: ") + error.what());
    for (const std::string& word : words) {
      if (std::string(error.what()).find(word) == std::string::npos) {
        Fail(file, line, "no '" + word + "' in: " + error.what());
      }
    }
    return;
  }
  Fail(file, line, "nothing was thrown");
}

inline int RunTests() {
  for (const Test& test : Tests()) {
    std::cerr << test.name << std::endl;
    test.run();
  }
  return 0;
}

}  // namespace sok::testing

#define SOK_TEST(name)                                                      \
  static void name();                                                       \
  static const sok::testing::Registration name##_registration(#name, name); \
  static void name()

#define CHECK_EQ(left, right) \
  sok::testing::CheckEqual(__FILE__, __LINE__, #left " == " #right, left, right)
#define CHECK_TRUE(condition) \
  if (!(condition)) sok::testing::Fail(__FILE__, __LINE__, #condition)
#define CHECK_THROWS(code, words, ...) \
  sok::testing::CheckThrows(__FILE__, __LINE__, code, words, [&] { __VA_ARGS__; })

#define SOK_TEST_MAIN() \
  int main() { return sok::testing::RunTests(); }
