// SPDX-License-Identifier: Apache-2.0
// Planes of the CPU with little address space, and the pages that they use.
#include <sys/resource.h>

#include <cstdio>
#include <fstream>

#include "ops/cpu/cpu_engine.h"
#include "ops/tests/check.h"

namespace sok {
namespace {

// Sanitizers reserve address space of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMayLimitAddresses = false;
#else
constexpr bool kMayLimitAddresses = true;
#endif

int64_t StatusBytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field, 0) == 0) return std::stoll(line.substr(field.size())) * 1024;
  }
  testing::Fail(__FILE__, __LINE__, "no " + field);
}

/// Leaves the process `bytes` of address space beyond its current use.
class AddressLimit {
 public:
  explicit AddressLimit(int64_t bytes) {
    getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(StatusBytes("VmSize:") + bytes);
    setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressLimit() { setrlimit(RLIMIT_AS, &before_); }
  AddressLimit(const AddressLimit&) = delete;
  AddressLimit& operator=(const AddressLimit&) = delete;

 private:
  rlimit before_;
};

SOK_TEST(ADeclaredCapacityMayBeRefused) {
  if (!kMayLimitAddresses) return;
  const AddressLimit limit(int64_t{48} << 20);
  CHECK_THROWS(ErrorCode::kOutOfMemory,
               (std::vector<std::string>{"refused", "declare a smaller capacity"}),
               CpuEngine().MakePlane({int64_t{1} << 28, 64}));
}

SOK_TEST(WithoutACapacityAPlaneGrowsAsFarAsItMay) {
  if (!kMayLimitAddresses) return;
  const AddressLimit limit(int64_t{48} << 20);
  const auto plane = CpuEngine().MakePlane({kMaxRows, 64});
  CHECK_TRUE(plane->MovesWhenItGrows());
  const int64_t num_rows = plane->num_rows();
  CHECK_TRUE(num_rows > 1000);
  plane->data().As<float>()[64 * num_rows - 1] = 5.0f;
  plane->Reserve(num_rows + 1);
  CHECK_EQ(plane->num_rows(), 4 * num_rows);
  CHECK_EQ(plane->data().As<float>()[64 * num_rows - 1], 5.0f);
  CHECK_EQ(plane->data().As<float>()[64 * 4 * num_rows - 1], 0.0f);
  // Four times as much is refused; a smaller growth is still worth a move.
  plane->Reserve(4 * num_rows + 1);
  const int64_t rows_granted = plane->num_rows();
  CHECK_TRUE(rows_granted > 5 * num_rows);
  CHECK_THROWS(ErrorCode::kOutOfMemory, std::vector<std::string>{"refused"},
               plane->Reserve(int64_t{1} << 28));
  CHECK_EQ(plane->num_rows(), rows_granted);
  CHECK_EQ(plane->data().As<float>()[64 * num_rows - 1], 5.0f);
}

/// Grows to the process's limit in few steps: not one per batch.
SOK_TEST(APlaneThatFillsTheAddressSpaceMovesRarely) {
  if (!kMayLimitAddresses) return;
  const AddressLimit limit(int64_t{256} << 20);
  const auto plane = CpuEngine().MakePlane({kMaxRows, 64});
  plane->data().As<float>()[0] = 5.0f;
  int num_moves = 0;
  try {
    constexpr int64_t kBatch = 1000;
    for (int64_t num_rows = kBatch;; num_rows += kBatch) {
      if (num_rows <= plane->num_rows()) continue;
      plane->Reserve(num_rows);
      CHECK_TRUE(++num_moves < 40);
    }
  } catch (const Error& error) {
    CHECK_TRUE(error.code() == ErrorCode::kOutOfMemory);
  }
  CHECK_EQ(plane->data().As<float>()[0], 5.0f);
  // Without address space for the old and the new plane at once.
  CHECK_TRUE(plane->num_rows() * 64 * int64_t{sizeof(float)} > int64_t{200} << 20);
}

SOK_TEST(WithoutAddressesThereIsNoPlane) {
  if (!kMayLimitAddresses) return;
  const AddressLimit limit(int64_t{2} << 20);
  CHECK_THROWS(ErrorCode::kOutOfMemory, std::vector<std::string>{"refused"},
               CpuEngine().MakePlane({kMaxRows, 64}));
}

SOK_TEST(ATableOfOneKeyTakesSmallPages) {
  std::vector<std::shared_ptr<Plane>> planes;
  const int64_t before = StatusBytes("VmRSS:");
  for (int i = 0; i < 200; ++i) {
    planes.push_back(CpuEngine().MakePlane({1'000'000, 16}));
    planes.back()->data().As<float>()[0] = 1.0f;
  }
  const int64_t taken = StatusBytes("VmRSS:") - before;
  CHECK_TRUE(kMayLimitAddresses ? taken < 200 * (256 << 10) : true);
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
